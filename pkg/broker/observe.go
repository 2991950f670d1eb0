package broker

import (
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Observer is told what happens, for statistics. Its methods must not block.
type Observer interface {
	topic.Observer
	// ObserveRaftCommit is told how long a change of the metadata took.
	ObserveRaftCommit(d time.Duration)
	// ObserveChange is told of a command that this node has proposed and that was
	// done, and of what became of its parts.
	ObserveChange(c meta.Command, r meta.Result)
}

// deaf is an Observer that nobody asks.
type deaf struct{}

func (deaf) ObservePublish(time.Duration, error)     {}
func (deaf) ObserveBatch(int)                        {}
func (deaf) ObserveDelivery(time.Duration)           {}
func (deaf) ObserveFinish(time.Duration, int)        {}
func (deaf) ObserveRaftCommit(time.Duration)         {}
func (deaf) ObserveChange(meta.Command, meta.Result) {}

// LogStats sums over the logs that this node holds. What deleted topics counted
// stays in the sums.
type LogStats struct {
	Segments      int
	Bytes         int64
	Unsynced      int64 // messages appended and not yet on disk
	Appends       int64 // batches
	Records       int64
	AppendedBytes int64
	Syncs         int64
	Unreadable    int           // damaged ranges of the logs that are held now
	Damaged       int           // damaged ranges that were ever found
	TornBytes     int64         // cut from torn tails at the start
	Recovery      time.Duration // that opening all logs took
}

func (s *LogStats) add(l commitlog.Stats) {
	s.Segments += l.Segments
	s.Bytes += l.Bytes
	s.Unsynced += int64(l.End - l.DurableEnd)
	s.retire(l)
}

// retire adds what stays of a log that is gone.
func (s *LogStats) retire(l commitlog.Stats) {
	s.Appends += l.Appends
	s.Records += l.Records
	s.AppendedBytes += l.AppendedBytes
	s.Syncs += l.Syncs
}

// LogStats returns the sums over the logs that this node holds.
func (n *shelf) LogStats() LogStats {
	n.retiredMu.Lock()
	s := n.retired
	n.retiredMu.Unlock()
	for _, h := range n.hostedTopics() {
		for _, hp := range h.partitions() {
			if hp != nil {
				s.add(hp.replica.Log().Stats())
			}
		}
	}
	s.Unreadable, s.Damaged = n.damage.counts()
	s.TornBytes = n.torn.Load()
	s.Recovery = time.Duration(n.recovery.Load())
	return s
}

// ScrubStats tells how far the check of the logs on this node for damage is.
func (n *shelf) ScrubStats() ScrubStats { return n.scrubbed.stats(n.o.WallClock(time.Now())) }

// retire keeps what stays of a replica that is about to go.
func (n *shelf) retire(hp *hostedPartition) {
	n.retiredMu.Lock()
	defer n.retiredMu.Unlock()
	n.retired.retire(hp.replica.Log().Stats())
}

// Placement counts the cluster's partitions as this node sees them, and those
// that it holds.
type Placement struct {
	Partitions, Offline, UnderReplicated, UnderMinISR, NonPreferredLeader, Moving int
	Hosted, Led                                                                   int
}

// Placement returns the counts of the cluster's partitions.
func (n *shelf) Placement() Placement {
	var c Placement
	for _, t := range n.o.Meta.Topics() {
		for i := range t.Partitions {
			c.count(&t.Partitions[i], t.Config.MinISR, n.o.Self)
		}
	}
	return c
}

func (c *Placement) count(p *meta.Partition, minISR int, self meta.NodeID) {
	c.Partitions++
	for _, x := range []struct {
		is    bool
		count *int
	}{
		{p.Leader == "", &c.Offline},
		{p.UnderReplicated(), &c.UnderReplicated},
		{len(p.ISR) < minISR, &c.UnderMinISR},
		{p.Leader != "" && p.Leader != p.Replicas[0], &c.NonPreferredLeader},
		{len(p.Adding)+len(p.Removing) > 0, &c.Moving},
		{p.Leader == self, &c.Led},
	} {
		if x.is {
			*x.count++
		}
	}
	for _, r := range p.Replicas {
		if r == self {
			c.Hosted++
		}
	}
}

// Disk is the state of the disk that the data is on, in bytes.
type Disk struct {
	Free, Total, Reserve uint64
	Low                  bool // publishes are refused
}

// Disk returns the state of the disk, or zeros if it cannot be told.
func (b *Broker) Disk() Disk {
	u, err := b.o.FS.Usage(b.o.DataDir)
	if err != nil {
		return Disk{}
	}
	return Disk{Free: u.Free, Total: u.Total, Reserve: b.reserve(u), Low: b.lowDisk.Load()}
}
