package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Decision is what the controller does now.
type Decision struct {
	// Commands must be proposed in this order, each regardless of the outcome of the previous
	// ones. The caller owns the slice.
	Commands []meta.Command
	Verdicts []Verdict     // changes of nodes' assumed liveness
	Probe    []meta.NodeID // nodes to probe
	Troubles []Trouble     // what cannot continue; shared, must not be changed
	Isolated bool          // most voters do not respond to probes: another node should decide
	Next     time.Time     // time of the next decision, unless something changes before
}

// core decides. It stores the assumed liveness of nodes and the times of rate-limited actions; it
// reads everything else from the metadata. It is not safe for concurrent use.
type core struct {
	*detector
	opts     Options
	trash    *Expiry                              // when deleted topics are purged
	wall     func(now time.Time) int64            // the wall clock, ns since 1970; tests set it
	skews    func() map[meta.NodeID]time.Duration // see Cluster; nil: none are known
	calm     time.Time                            // since when no verdict and no election was necessary, and no leadership moved away
	balanced time.Time                            // when leaderships were last returned

	// The subject and result of the last round over the metadata.
	seen     *meta.State // including what was found unchanged since
	nodes    Conditions
	looked   time.Time
	settled  bool // nothing had to be done
	troubles []Trouble
}

// newCore returns a controller that has just taken over on node self.
func newCore(o Options, self meta.NodeID, now time.Time) *core {
	o = o.WithDefaults()
	return &core{
		detector: newDetector(o, self, now), opts: o, trash: &Expiry{}, wall: time.Time.UnixNano, calm: now, balanced: now,
	}
}

// Decide returns what to do now. Liveness and leadership come first. Replicas are moved and
// leaderships returned only if nothing is pending, and the trash is purged only after that.
func (c *core) Decide(s *meta.State, now time.Time) Decision {
	d := c.decide(s, now)
	if due := c.trash.Due(s, now, c.wall(now)); len(due) > 0 && len(d.Commands) == 0 {
		d.Commands = []meta.Command{meta.PurgeTopics{Incarnations: due}}
	}
	return d
}

func (c *core) decide(s *meta.State, now time.Time) Decision {
	var d Decision
	d.Verdicts, d.Probe, d.Next = c.Tick(s, now)
	d.Isolated = c.isolated(now, c.opts.SessionTimeout)
	nodes := c.Conditions(s)
	if c.seen != nil && movedAway(c.seen, s) {
		c.calm = now
	}
	if len(d.Verdicts) == 0 && c.settled && now.Sub(c.looked) < lookAgain && !now.Before(c.looked) && c.rests(s, nodes) {
		c.seen, d.Troubles = s.Snapshot(), c.troubles
		return d
	}
	for _, v := range d.Verdicts {
		state := meta.NodeDown
		if v.Alive {
			state = meta.NodeUp
		}
		d.Commands = append(d.Commands, meta.SetNodeState{ID: v.Node, State: state, Incarnation: v.Incarnation})
	}
	elections, troubles := Elect(s, nodes)
	d.Commands = append(d.Commands, batches(elections, c.opts.Elections)...)
	d.Troubles = troubles
	if len(d.Commands) > 0 {
		c.calm = now
	} else {
		moves, stuck := moves(s, nodes, c.opts)
		d.Commands, d.Troubles = moves, append(d.Troubles, stuck...)
	}
	if len(d.Commands) == 0 {
		d.Commands = c.balance(s, nodes, now)
	}
	if len(d.Commands) == 0 && now.Sub(c.calm) >= ephemeralAfter {
		d.Commands = c.lost(s, d.Troubles, now)
	}
	c.seen, c.nodes, c.looked = s.Snapshot(), nodes, now
	c.settled, c.troubles = len(d.Commands) == 0, d.Troubles
	return d
}

// lost deletes the ephemeral topics that have no leader. Their messages were in the memory of nodes that
// are dead; the next client that uses such a name creates it on a living node. A node that answers again,
// but still counts as dead because it died repeatedly, has its messages.
func (c *core) lost(s *meta.State, troubles []Trouble, now time.Time) (all []meta.Command) {
	kept := func(p meta.Partition) bool {
		return p.Leader != "" || slices.ContainsFunc(p.Replicas, func(id meta.NodeID) bool { return c.answers(id, now) })
	}
	for _, x := range troubles {
		t := s.Topic(x.Topic)
		if x.Kind != TroubleOffline || x.Partition != 0 || !meta.IsEphemeral(x.Topic) ||
			slices.ContainsFunc(t.Partitions, kept) {
			continue
		}
		all = append(all, meta.DeleteTopic{Name: t.Name, Incarnation: t.Incarnation})
	}
	return all
}

// movedAway reports whether a partition was given another leader than its preferred one: by an
// operator, or by the previous leader. Undoing that at once would revert the request.
func movedAway(was, is *meta.State) bool {
	for before, after := range is.Changes(was) {
		if before == nil || after == nil {
			continue
		}
		for i, p := range after.Partitions {
			if i < len(before.Partitions) && p.Epoch > before.Partitions[i].Epoch && p.Leader != "" && p.Leader != p.Replicas[0] {
				return true
			}
		}
	}
	return false
}

// rests reports whether nothing has changed since the last round except topics that need nothing,
// and the last round found nothing to do. It visits only changed topics.
func (c *core) rests(s *meta.State, nodes Conditions) bool {
	if !meta.SameNodes(c.seen, s) || !maps.Equal(nodes, c.nodes) {
		return false
	}
	for was, is := range s.Changes(c.seen) {
		if was != nil && !c.quiet(s, was) || is != nil && !c.quiet(s, is) {
			return false
		}
	}
	return true
}

// quiet reports whether a topic needs nothing: no leader, no replica, no move. It may return false
// for a topic that needs nothing.
func (c *core) quiet(s *meta.State, t *meta.Topic) bool {
	if f := fit(s, t); f.Replicas+f.MinISR > 0 {
		return false
	}
	return !slices.ContainsFunc(t.Partitions, func(p meta.Partition) bool {
		return c.nodes[p.Leader] < Full || p.Moving() || lacks(t, &p) ||
			slices.ContainsFunc(p.Replicas, func(id meta.NodeID) bool { return s.Node(id).Intent == meta.IntentDecommission })
	})
}

// Conditions returns the conditions of the nodes in the metadata, as assumed by the controller:
// its own verdicts count before they are applied.
func (c *core) Conditions(s *meta.State) Conditions {
	nodes := conditions(s, func(n *meta.Node) bool { return !c.Alive(n.ID) })
	if c.skews == nil {
		return nodes
	}
	for id, skew := range c.skews() {
		if skew.Abs() > maxSkew && nodes[id] > Skewed {
			nodes[id] = Skewed
		}
	}
	return nodes
}

// balance returns leaderships to preferred leaders when the cluster has been calm for long enough.
func (c *core) balance(s *meta.State, nodes Conditions, now time.Time) []meta.Command {
	if now.Sub(c.calm) < balanceAfter || now.Sub(c.balanced) < balanceEvery {
		return nil
	}
	steady := make(map[meta.NodeID]bool, len(nodes))
	for id := range nodes {
		since := c.AliveSince(id)
		steady[id] = !since.IsZero() && now.Sub(since) >= balanceAfter
	}
	elections := toPreferred(s, nodes, steady, c.opts.BalanceBatch)
	if len(elections) > 0 {
		c.balanced = now
	}
	return batches(elections, c.opts.Elections)
}
