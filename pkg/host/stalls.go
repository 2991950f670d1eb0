package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
)

// StallCheck is how often open stalls are looked at. With coord.StallAfter it makes
// five seconds: no stall is longer without a line in the log and a reason in the
// health.
const StallCheck = time.Second

// stallKind is what does not progress.
type stallKind uint8

const (
	// stallRole: a replica does not take the role that metadata gives it.
	stallRole stallKind = iota
	// stallFollower: a follower of a partition that this node leads lacks something,
	// and gets nothing.
	stallFollower
	// stallLead: the metadata names this node leader of a partition that it does not
	// lead, or the leadership of one that it holds goes from node to node.
	stallLead
	// stallSlow: a follower of a partition that this node leads slows publishers down, or
	// was taken out of the in-sync set because of that.
	stallSlow

	stallKinds // how many there are
)

// stallTexts are, for each kind, the code in health and metrics and what it means.
var stallTexts = [stallKinds]struct{ code, what string }{
	stallRole:     {"role_change_stalled", "replicas have not assumed the role assigned by the metadata"},
	stallLead:     {"partitions_not_led", "partitions whose assigned leader is not leading, publishes are refused"},
	stallFollower: {"replication_stalled", "followers are behind and make no progress"},
	stallSlow:     {"replica_slow", "followers slow down publishes, or left the in-sync set for it"},
}

// stallKey names what may stall.
type stallKey struct {
	kind      stallKind
	topic     string
	partition int
	node      meta.NodeID // of the follower; "": this node
}

// String names the partition, and the node that it is about.
func (k stallKey) String() string {
	s := fmt.Sprintf("%s/%d", k.topic, k.partition)
	if k.node != "" {
		s += " at " + string(k.node)
	}
	return s
}

// stall is something that ought to progress and does not.
type stall struct {
	since time.Time
	why   string
	told  bool // in the log
}

// stalls are what does not progress on this node. Whoever waits for something says
// so with begin and end; what takes longer than coord.StallAfter is an error in the
// log, a reason in the health and a metric until it ends. Stalls may be used by many
// goroutines.
type stalls struct {
	log    *slog.Logger
	wakeup chan struct{} // there is one

	mu   sync.Mutex // guards open
	open map[stallKey]*stall
}

func newStalls(log *slog.Logger) *stalls {
	return &stalls{log: log, wakeup: make(chan struct{}, 1), open: map[stallKey]*stall{}}
}

// begin says that something has not progressed since a time, and why. If that was
// said before, the earlier time stands, and the newer reason.
func (s *stalls) begin(k stallKey, since time.Time, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.open[k]; known != nil {
		known.why = why
		return
	}
	s.open[k] = &stall{since: since, why: why}
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// end says that it progresses again, or no longer has to.
func (s *stalls) end(k stallKey) {
	s.mu.Lock()
	known := s.open[k]
	delete(s.open, k)
	s.mu.Unlock()
	if known != nil && known.told {
		s.log.Info("progress resumed", "of", stallTexts[k.kind].what, "topic", k.topic, "partition", k.partition, "node", k.node,
			"after", time.Since(known.since).Round(time.Millisecond))
	}
}

// run says in the log what has stalled, until ctx ends. It sleeps while nothing is
// open.
func (s *stalls) run(ctx context.Context) {
	ticker := time.NewTicker(StallCheck)
	defer ticker.Stop()
	for {
		if !s.check(time.Now()) {
			ticker.Stop()
			select {
			case <-ctx.Done():
				return
			case <-s.wakeup:
			}
			ticker.Reset(StallCheck)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// check says once of each stall that it is one, and returns whether any is open.
func (s *stalls) check(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, x := range s.open {
		if x.told || now.Sub(x.since) < coord.StallAfter {
			continue
		}
		x.told = true
		s.log.Error("no progress", "of", stallTexts[k.kind].what, "topic", k.topic, "partition", k.partition, "node", k.node,
			"for", now.Sub(x.since).Round(time.Millisecond), "reason", x.why)
	}
	return len(s.open) > 0
}

// counts returns how many there are of each code, none included.
func (s *stalls) counts(now time.Time) map[string]int {
	all := map[string]int{}
	for _, t := range stallTexts {
		all[t.code] = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, x := range s.open {
		if now.Sub(x.since) >= coord.StallAfter {
			all[stallTexts[k.kind].code]++
		}
	}
	return all
}

// reasons returns what stalls, for the health: the first of each kind are named.
// No kind: all of them.
func (s *stalls) reasons(now time.Time, kinds ...stallKind) []health.Reason {
	var named [stallKinds][]string
	s.mu.Lock()
	for k, x := range s.open {
		if now.Sub(x.since) >= coord.StallAfter && (len(kinds) == 0 || slices.Contains(kinds, k.kind)) {
			named[k.kind] = append(named[k.kind], fmt.Sprintf("%s (%s)", k, cmp.Or(x.why, "reason unknown")))
		}
	}
	s.mu.Unlock()
	var reasons []health.Reason
	for kind, names := range named {
		if len(names) > 0 {
			slices.Sort(names)
			t := stallTexts[kind]
			reasons = append(reasons, health.Reason{Code: t.code, Count: len(names), What: t.what + ": " + health.Names(names)})
		}
	}
	return reasons
}

// ReplicationStats returns the node's figures about what it sends to replicas.
func (n *Host) ReplicationStats() coord.ReplicationStats {
	return coord.StatsOf(n.budget, n.catchUp, time.Now())
}

// Stalls returns how many partitions of this node do not progress, by the code that
// the health has for it.
func (n *Host) Stalls() map[string]int { return n.stalls.counts(time.Now()) }
