package host

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quarantine"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// If a replica with unreadable channel positions is to lead, and other replicas are in sync, this
// one transfers the leadership: another has intact positions. If no other takes over in time, the
// replica leads with every channel at the log's start: messages are delivered again, none is
// skipped.

// SalvageAfter is how long a replica without readable positions waits for another
// to lead before it leads itself. Another that is down may be starting, as when all nodes restart.
const SalvageAfter = 5 * time.Second

// salvages reports whether a replica that is to lead by the view v leads even without readable
// positions.
func (q *Quarantine) salvages(hp *Held, v coord.View) bool {
	if !hp.unreadable.IsZero() && time.Since(hp.unreadable) >= SalvageAfter {
		return true
	}
	return !slices.ContainsFunc(v.ISR, func(id meta.NodeID) bool { return id != q.o.Self })
}

// openedPositions handles the outcome of opening a leader's positions, and returns it. If they
// cannot be read, another in-sync replica that is up is asked to lead.
func (q *Quarantine) openedPositions(h *Topic, hp *Held, v coord.View, err error) error {
	if err == nil {
		hp.unreadable = time.Time{}
		return nil
	}
	if hp.unreadable.IsZero() {
		hp.unreadable = time.Now()
		q.log.Error("cannot read channel positions; waiting for another in-sync replica to lead",
			"topic", h.Name, "partition", hp.index, "error", err, "longest", SalvageAfter)
	}
	up := slices.ContainsFunc(v.Replicas, func(r coord.ReplicaView) bool {
		return r.Node != q.o.Self && !r.Down && slices.Contains(v.ISR, r.Node)
	})
	// The other may have the same problem and transfer in turn.
	if now := time.Now(); up && now.Sub(hp.handedOn) >= quarantine.Retry {
		hp.handedOn = now
		q.transferAway(h, hp.index)
	}
	return fmt.Errorf("cannot lead: %w", err)
}

// reportPositions reports damaged stored positions. lost means that a leader has no intact ones.
func (q *Quarantine) reportPositions(h *Topic, hp *Held, err error, lost bool) {
	log := q.log.With("topic", h.Name, "partition", hp.index, "error", err)
	if lost {
		hp.salvaged.Store(true)
		log.Error("cannot read channel positions; every channel of the partition restarts at the log start, " +
			"finished messages are redelivered; move channels with `brokerctl channel seek`")
		return
	}
	log.Warn("stored channel positions are corrupt; using an older version, finished messages may be redelivered")
}

// roleErrors records the replicas that could not take the role of the metadata, with the reason.
// They are retried.
type roleErrors struct {
	mu      sync.Mutex // guards the fields below
	all     map[meta.PartitionID]error
	appends map[meta.PartitionID]appendRefusal
}

// set sets the reason of a replica; nil means that it has its role. It reports whether a failure
// begins or ends.
func (r *roleErrors) set(h *Topic, partition int, err error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := idOf(h, partition)
	_, failed := r.all[key]
	if err == nil {
		delete(r.all, key)
		return failed
	}
	r.all[key] = err
	return !failed
}

// topics returns the names of the topics with such a replica.
func (r *roleErrors) topics() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for key := range r.all {
		names = append(names, key.Topic)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// reason returns why a replica could not take its role, or nil.
func (r *roleErrors) reason(h *Topic, partition int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[idOf(h, partition)]
}

// forget drops the reasons of a topic.
func (r *roleErrors) forget(h *Topic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.all, func(key meta.PartitionID, _ error) bool {
		return key.Topic == h.Name && key.Incarnation == h.Incarnation
	})
}

// list returns these replicas as TOPIC/PARTITION, sorted: those that the metadata names as leaders,
// and the others.
func (r *roleErrors) list(self meta.NodeID, topic func(string) *meta.Topic) (leaders, others []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := slices.Collect(maps.Keys(r.all))
	for key, x := range r.appends {
		if r.all[key] == nil && time.Since(x.last) <= refusalsShown {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		p := key.Of(topic(key.Topic))
		if p == nil {
			continue
		}
		name := key.Topic + "/" + strconv.Itoa(key.Partition)
		if p.Leader == self {
			leaders = append(leaders, name)
		} else {
			others = append(others, name)
		}
	}
	slices.SortFunc(leaders, strings.Compare)
	slices.SortFunc(others, strings.Compare)
	return leaders, others
}

// reasons are the health reasons of this node's replicas that do not work as they should.
func (q *Quarantine) reasons() []health.Reason {
	var reasons []health.Reason
	add := func(code, what string, names []string) {
		if len(names) > 0 {
			reasons = append(reasons, health.Reason{Code: code, Count: len(names), What: what + ": " + health.Names(names)})
		}
	}
	leaders, others := q.failures.list(q.o.Self, q.o.Meta.Topic)
	add("leader_failed", "partitions that this node fails to lead, see its log", leaders)
	add("replica_failed", "replicas that this node fails to open, see its log", others)
	var salvaged, lost, refusing, old []string
	q.topics.EachHeld(func(h *Topic, hp *Held) {
		name := fmt.Sprintf("%s/%d", h.Name, hp.index)
		if hp.salvaged.Load() {
			salvaged = append(salvaged, name)
		}
		if q.Lost(h, hp) {
			lost = append(lost, name)
		}
		if condition(hp.state.Load()) == outdated {
			old = append(old, name)
		}
		if hp.Replica.Refusing() {
			refusing = append(refusing, name)
		}
	})
	slices.Sort(salvaged)
	slices.Sort(lost)
	slices.Sort(refusing)
	slices.Sort(old)
	add("data_lost", "partitions whose only in-sync replica lost its data directory, see `brokerctl partition repair`", lost)
	add("replicas_outdated", "replicas of another disk, or of an older copy of this one, which are not served until a leader replaces them or an operator elects them", old)
	add("replica_refusing", "replicas that refuse their leader because it lacks committed messages", refusing)
	add("copies_set_aside", "set-aside copies waiting for an operator, see `brokerctl partition repair`", q.Asides.Waiting())
	add("positions_lost", "partitions whose channels restarted at the log start because stored positions are unreadable", salvaged)
	return reasons
}

// refusalsShown is how long a replica counts as failed after the file system refused an append.
const refusalsShown = 30 * time.Second

// appendRefusal is the state of a replica to whose log the file system refuses appends.
type appendRefusal struct {
	last    time.Time
	handled time.Time // when it was last tried to hand the partition on
}

// refused records that the file system refused an append, and reports whether that is new, and whether
// it is time to hand the partition on: when it was new, no other replica may have been in sync.
func (r *roleErrors) refused(key meta.PartitionID, now time.Time) (first, handle bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.appends, func(_ meta.PartitionID, x appendRefusal) bool { return now.Sub(x.last) > refusalsShown })
	x, known := r.appends[key]
	if handle = now.Sub(x.handled) >= quarantine.Retry; handle {
		x.handled = now
	}
	x.last = now
	r.appends[key] = x
	return !known, handle
}

// onRefusal returns what a log calls under locks when the file system refuses an append. If its data is intact, but its
// file cannot be opened for example, nothing else would end that the replica leads and refuses every publish.
func (rs *roles) onRefusal(h *Topic, i int) func(error) {
	return func(err error) {
		if vfs.LacksRoom(err) {
			rs.disk.Deny(err)
			return
		}
		first, handle := rs.quarantine.failures.refused(idOf(h, i), time.Now())
		if !handle {
			return
		}
		rs.life.running.Go(func() {
			if first {
				rs.log.Error("file system refuses appends to replica: publishes to the partition are refused until that ends, or another in-sync replica leads",
					"topic", h.Name, "partition", i, "error", err)
			}
			if h.Led(i) != nil && rs.quarantine.elsewhere(h, i) {
				rs.quarantine.transferAway(h, i)
			}
		})
	}
}
