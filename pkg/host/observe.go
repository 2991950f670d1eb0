package host

import (
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Observer receives statistics. Its methods must not block.
type Observer interface {
	topic.Observer
	// ObserveRaftCommit reports the duration of a metadata change.
	ObserveRaftCommit(d time.Duration)
	// ObserveReplication reports how long a follower took to confirm that it has stored a request.
	ObserveReplication(d time.Duration)
	// ObserveChange reports a command proposed by this node that was applied, with the results
	// of its parts.
	ObserveChange(c meta.Command, r meta.Result)
}

// Deaf is an Observer that discards everything.
type Deaf struct{}

// ObservePublish implements topic.Observer.
func (Deaf) ObservePublish(time.Duration, error) {}

// ObserveBatch implements topic.Observer.
func (Deaf) ObserveBatch(int) {}

// ObserveDelivery implements topic.Observer.
func (Deaf) ObserveDelivery(time.Duration) {}

// ObserveFinish implements topic.Observer.
func (Deaf) ObserveFinish(time.Duration, int) {}

// ObserveReplication implements Observer.
func (Deaf) ObserveReplication(time.Duration) {}

// ObserveRaftCommit implements Observer.
func (Deaf) ObserveRaftCommit(time.Duration) {}

// ObserveChange implements Observer.
func (Deaf) ObserveChange(meta.Command, meta.Result) {}

// LogStats sums over the logs of this node. Counters of deleted topics stay in the sums.
type LogStats struct {
	Segments      int
	Bytes         int64
	Unsynced      int64 // messages appended and not yet on disk
	Appends       int64 // batches
	Records       int64
	AppendedBytes int64
	Syncs         int64
	Unreadable    int           // damaged ranges of the open logs
	Damaged       int           // damaged ranges ever found
	TornBytes     int64         // truncated from torn tails at the start
	Recovery      time.Duration // duration of opening all logs
}

func (s *LogStats) add(l commitlog.Stats) {
	s.Segments += l.Segments
	s.Bytes += l.Bytes
	s.Unsynced += int64(l.End - l.DurableEnd)
	s.retire(l)
}

// retire adds the counters of a closed log.
func (s *LogStats) retire(l commitlog.Stats) {
	s.Appends += l.Appends
	s.Records += l.Records
	s.AppendedBytes += l.AppendedBytes
	s.Syncs += l.Syncs
}

// ReplicationStats returns the statistics of what the node sends to replicas.
func (n *Host) ReplicationStats() coord.ReplicationStats {
	return coord.StatsOf(n.roles.budget, n.roles.catchUp, time.Now())
}
