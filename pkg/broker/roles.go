package broker

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// hostedPartition is a replica that this node holds. Its role is changed in the
// topic's turn.
type hostedPartition struct {
	index   int
	dir     string
	replica *coord.Replica
	led     atomic.Pointer[ledPartition] // nil: this node does not lead it

	endBefore  seq.Offset // of the log at the last round of retention, whose goroutine owns it
	idle       bool       // nothing was appended in the last round; likewise
	unstored   bool       // the last checkpoint failed; of the checkpoint loop
	unretained bool       // the last round of retention failed; of its goroutine
}

// ledPartition is a partition for as long as this node leads it at one epoch.
// Its fields do not change. What is done to it when it is led no longer is
// refused by its term.
type ledPartition struct {
	index   int
	replica *coord.Replica
	term    *coord.Term
	part    *topic.Partition
}

// adoptPartition makes one partition what metadata says it is to this node.
func (n *hosting) adoptPartition(h *hostedTopic, t *meta.Topic, i int) error {
	p := &t.Partitions[i]
	held := slices.Contains(p.Replicas, n.o.Self)
	hp := h.at(i)
	if hp == nil && held {
		var err error
		if hp, err = n.openReplica(h, t, i); err != nil {
			h.hold(i, nil) // the number is taken
			return err
		}
	}
	h.hold(i, hp)
	if hp == nil {
		return nil
	}
	if p.Leader == n.o.Self {
		return n.lead(h, hp, t)
	}
	return nil
}

// lead makes this node lead a partition at the epoch that metadata says.
func (n *hosting) lead(h *hostedTopic, hp *hostedPartition, t *meta.Topic) error {
	p := &t.Partitions[hp.index]
	if lp := hp.led.Load(); lp != nil {
		lp.term.SetSync(t.Config.Sync)
		return nil
	}
	part, err := n.openPart(h, hp)
	if err != nil {
		return err
	}
	l := coord.Leadership{Epoch: p.Epoch, ISR: p.ISR, MinISR: t.Config.MinISR, Sync: t.Config.Sync}
	if err := hp.replica.Lead(l, part.Committed); err != nil {
		return err
	}
	lp := &ledPartition{index: hp.index, replica: hp.replica, term: hp.replica.Term(), part: part}
	part.Serve(lp.term)
	if err := lp.adopt(t); err != nil {
		return errors.Join(err, hp.replica.StopLeading(), part.Close(err))
	}
	hp.led.Store(lp)
	h.publishLed()
	return nil
}

func (n *hosting) openPart(h *hostedTopic, hp *hostedPartition) (*topic.Partition, error) {
	return topic.Open(topic.Options{
		Index: hp.index, FS: h.fs, Dir: hp.dir, Log: hp.replica.Log(), Arm: n.timers.arm, Observer: n.o.Observer,
		Damaged: func(err *commitlog.CorruptionError) { n.reportDamage(h.name, hp.index, err) },
		PositionsDamaged: func(err error) {
			n.log.Warn("the newest positions are damaged, those before them are used", "topic", h.name, "partition", hp.index, "error", err)
		},
	})
}

// adopt takes over what metadata says of a topic's channels.
func (lp *ledPartition) adopt(t *meta.Topic) error {
	lp.part.SetPaused(t.Paused)
	for _, c := range channelsOf(t) {
		if _, err := lp.part.AddChannel(c.Name, uint64(c.Version), topic.ChannelOptions{Ordered: c.Ordered, Paused: c.Paused}); err != nil {
			return err
		}
	}
	for _, c := range lp.part.Channels() {
		if !c.Ephemeral() && t.Channels[c.Name()] == nil {
			if err := lp.part.RemoveChannel(c.Name()); err != nil && !errors.Is(err, topic.ErrChannelNotFound) {
				return err
			}
		}
	}
	lp.part.Settled()
	return nil
}

// checkpoint stores what is known of the channels' positions.
func (hp *hostedPartition) checkpoint() error {
	if lp := hp.led.Load(); lp != nil {
		return lp.part.Checkpoint()
	}
	return nil
}

// retain drops what no channel needs and no policy keeps.
func (hp *hostedPartition) retain(r commitlog.Retention) error {
	if lp := hp.led.Load(); lp != nil {
		return lp.part.Retain(r.Now, r.MaxAge, r.MaxBytes, r.Last)
	}
	return nil
}

// close ends the role of a replica and closes its log.
func (hp *hostedPartition) close(reason error) error {
	// the term first: what it commits still wakes channels
	err := hp.replica.StopLeading()
	if lp := hp.led.Load(); lp != nil {
		err = errors.Join(err, lp.part.Close(reason))
	}
	return errors.Join(err, hp.replica.Close())
}

// at returns the replica of partition i, or nil.
func (h *hostedTopic) at(i int) *hostedPartition {
	if all := h.partitions(); i >= 0 && i < len(all) {
		return all[i]
	}
	return nil
}

// hold notes which replica is held of partition i; nil: none.
func (h *hostedTopic) hold(i int, hp *hostedPartition) {
	all := h.partitions()
	if i < len(all) && all[i] == hp {
		return
	}
	next := slices.Clone(all)
	for len(next) <= i {
		next = append(next, nil)
	}
	next[i] = hp
	h.held.Store(&next)
}

// publishLed makes known which partitions are led.
func (h *hostedTopic) publishLed() {
	led := []*ledPartition{}
	for _, hp := range h.partitions() {
		if hp == nil {
			continue
		}
		if lp := hp.led.Load(); lp != nil {
			led = append(led, lp)
		}
	}
	h.leading.Store(&led)
}
