package operate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/dedup"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/processing"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/units"
)

// electionTime is how long the metadata may have no leader before that is reported: a normal
// election takes less.
const electionTime = 3 * time.Second

// Health returns the health of the cluster as known on this node.
func (o *Node) Health() health.Report {
	now := time.Now()
	h := health.Report{Reasons: o.Ready()}
	h.Healthy = len(h.Reasons) == 0
	if r, ok := forming(o.Awaited); ok {
		h.Reasons = append(h.Reasons, r)
		h.Degraded = true
	}
	if r, some := unreachable(o.Meta.View(), o.unreached()); some {
		h.Reasons, h.Degraded = append(h.Reasons, r), true
	}
	for _, r := range o.host.Reasons(now) {
		h.Reasons = append(h.Reasons, r)
		if health.GravityOf(r.Code) == health.Failing {
			h.Healthy = false
		} else {
			h.Degraded = true
		}
	}
	if names := spinning(o.host.Topics.Hosted(), now); len(names) > 0 {
		h.Reasons = append(h.Reasons, health.Reason{Code: "messages_spinning", Count: len(names), What: fmt.Sprintf(
			"consumers requeue messages immediately, more than %d times per second: %s", processing.SpinRate, health.Names(names))})
	}
	h.Reasons = append(h.Reasons, boundReasons(o.host.Topics.Hosted(), now)...)
	h.Degraded = h.Degraded || slices.ContainsFunc(h.Reasons, func(r health.Reason) bool { return r.Code == "topics_full" })
	for _, r := range failingReasons(o.host.Topics.Hosted(), o.Letters) {
		h.Reasons = append(h.Reasons, r)
		h.Degraded = h.Degraded || health.GravityOf(r.Code) == health.Degrading
	}
	if o.Skew != nil {
		if r, some := skewed(o.Skew(now)); some {
			h.Reasons, h.Degraded = append(h.Reasons, r), true
		}
	}
	if o.Certificates != nil {
		for _, r := range health.CertificateReasons(o.Certificates(), now) {
			h.Reasons = append(h.Reasons, r)
			h.Degraded = h.Degraded || health.GravityOf(r.Code) == health.Degrading
		}
	}
	if o.OtherClusters != nil {
		if r, some := apart(o.OtherClusters()); some {
			h.Reasons, h.Degraded = append(h.Reasons, r), true
		}
	}
	offline := 0
	meta.EachPartition(o.Meta.View(), func(_ *meta.Topic, _ int, p *meta.Partition) {
		if p.Leader == "" {
			offline++
		}
	})
	if offline > 0 {
		h.Healthy = false
		h.Reasons = append(h.Reasons, health.Reason{Code: "partitions_offline", Count: offline, What: "partitions have no leader"})
	}
	return h
}

// skewed reports a node whose wall clock differs from those of most nodes.
func skewed(ahead time.Duration) (health.Reason, bool) {
	how := "ahead of"
	if ahead < 0 {
		how = "behind"
	}
	return health.Reason{Code: "clock_skew", Count: 1, What: fmt.Sprintf("the clock is %s %s those of most nodes; set it, and check the node's time service",
		units.ShortDuration(ahead.Abs()), how)}, ahead.Abs() >= age.ReportedSkew
}

// apart reports a node that was told to join another cluster, and serves its own.
func apart(addresses []string) (health.Reason, bool) {
	return health.Reason{Code: "join_other_cluster", Count: len(addresses), What: "join addresses belong to another cluster, " +
		"with which this node shares nothing: " + health.Names(addresses)}, len(addresses) > 0
}

// forming reports whether the cluster waits for nodes with which this node has bootstrapped it, and
// the reason.
func forming(awaited func() []meta.NodeID) (health.Reason, bool) {
	if awaited == nil {
		return health.Reason{}, false
	}
	nodes := awaited()
	if len(nodes) == 0 {
		return health.Reason{}, false
	}
	return health.Reason{Code: "cluster_forming", Count: len(nodes), What: "the cluster is forming, and waits for nodes to join: " + health.Names(texts(nodes))}, true
}

// spinning names the messages that consumers requeue at once.
func spinning(topics []*host.Topic, now time.Time) []string {
	var names []string
	for _, h := range topics {
		for _, lp := range h.AllLed() {
			for _, c := range lp.Part.Channels() {
				for _, x := range c.Spins.At(now) {
					names = append(names, fmt.Sprintf("%s/%s partition %d seq %d (%.0f/s)", h.Name, c.Name(), lp.Index, x.Offset, x.PerSecond))
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// Ready returns why this node cannot serve everything now; empty: it can.
func (o *Node) Ready() []health.Reason {
	reasons := o.host.NotReady(time.Now())
	if r, ok := leaderless(o.Meta.Members().Leaderless(), o.silent()); ok {
		reasons = append(reasons, r)
	}
	return reasons
}

// leaderless reports whether the lack of a metadata leader should be reported, and the reason.
// silent are the members that do not respond.
func leaderless(gone time.Duration, silent []string) (health.Reason, bool) {
	if gone <= electionTime {
		return health.Reason{}, false
	}
	what := fmt.Sprintf("no metadata leader for %v: nothing can be created or changed", gone.Round(time.Second))
	if len(silent) > 0 {
		what += "; no answer from " + strings.Join(silent, " ")
	}
	return health.Reason{Code: "no_controller", Count: 1, What: what}, true
}

// failingReasons names channels on this node with exhausted messages that stay in them.
func failingReasons(topics []*host.Topic, w *deadletter.Worker) (reasons []health.Reason) {
	var blocked, refused []string
	for _, h := range topics {
		for _, lp := range h.AllLed() {
			for _, c := range lp.Part.Channels() {
				if topic.RetriesOf(c).Policy().OnExhausted != policy.Block {
					continue
				}
				if s := c.Stats(); s.Blocked != nil {
					blocked = append(blocked, fmt.Sprintf("%s/%s partition %d seq %d", h.Name, c.Name(), lp.Index, *s.Blocked))
				}
			}
		}
	}
	if len(blocked) > 0 {
		slices.Sort(blocked)
		reasons = append(reasons, health.Reason{
			Code: "messages_blocked", Count: len(blocked),
			What: "messages used up their attempts and are not delivered (on-exhausted block): " + health.Names(blocked),
		})
	}
	for _, x := range w.Troubles() {
		refused = append(refused, fmt.Sprintf("%s (%v)", x.Name, x.Err))
	}
	if len(refused) > 0 {
		reasons = append(reasons, health.Reason{
			Code: "dead_letters_refused", Count: len(refused),
			What: "messages that used up their attempts stay in their channels, retrying: " + health.Names(refused),
		})
	}
	return reasons
}

// fullest names the partitions of a topic led here that are nearly full, or have no room for what was refused last.
func fullest(h *host.Topic, now time.Time) (names []string) {
	for _, lp := range h.AllLed() {
		if quota.NearlyFull(lp.Part.Log().Bytes(), h.Config().Config.Quota(), h.Disk.RefusedSize(now)) {
			names = append(names, fmt.Sprintf("%s/%d", h.Name, lp.Index))
		}
	}
	return names
}

// boundReasons reports partitions that refuse messages because they are full, topics that drop
// unfinished messages, and partitions that received so many dedup ids that some were dropped within
// their window.
func boundReasons(topics []*host.Topic, now time.Time) (reasons []health.Reason) {
	var full, keeping, dropping, short []string
	for _, h := range topics {
		if h.Disk.Full(now) {
			full = append(full, fullest(h, now)...)
			if c := h.Config().Config; c.RetentionAge > 0 || c.DedupWindow > 0 {
				keeping = append(keeping, h.Name)
			}
		}
		if h.Disk.Dropping(now) {
			dropping = append(dropping, h.Name)
		}
		for _, lp := range h.AllLed() {
			if k := lp.Once.Keeper(); k != nil && k.Counts().Forgotten > 0 {
				short = append(short, fmt.Sprintf("%s/%d", h.Name, lp.Index))
			}
		}
	}
	if len(full) > 0 {
		what := fmt.Sprintf("partitions have reached their share of max-bytes and refuse publishes: %s; consume messages, or raise max-bytes", health.Names(full))
		if len(keeping) > 0 {
			what += "; finished messages count as long as they are kept: shorten the retention or the dedup window of " + health.Names(keeping)
		}
		reasons = append(reasons, health.Reason{Code: "topics_full", Count: len(full), What: what})
	}
	if len(dropping) > 0 {
		reasons = append(reasons, health.Reason{Code: "unfinished_dropped", Count: len(dropping), What: "topics have reached their maximum size " +
			"and delete messages that some channel has not finished: " + health.Names(dropping) + "; add consumers, or raise retention-bytes or max-bytes"})
	}
	if len(short) > 0 {
		reasons = append(reasons, health.Reason{Code: "dedup_window_short", Count: len(short), What: fmt.Sprintf(
			"more than %d dedup ids within the window, the oldest were dropped: %s", dedup.DefaultMost, health.Names(short))})
	}
	return reasons
}
