package broker

import (
	"context"
	"sync"
	"time"
)

// termTick is how often terms that have followers are told what time it is, and
// idleTicks how many times less often those that have nothing to do.
const (
	termTick  = 100 * time.Millisecond
	idleTicks = 4
)

// terms are the led partitions that have other replicas: those that need to be
// told the time. All others cost nothing while they are idle.
type terms struct {
	mu     sync.Mutex // guards shared
	shared map[*ledPartition]struct{}
}

// note adds a led partition if it has other replicas, and else takes it out.
func (t *terms) note(lp *ledPartition) {
	if !lp.term.Shared() {
		t.forget(lp)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shared == nil {
		t.shared = map[*ledPartition]struct{}{}
	}
	t.shared[lp] = struct{}{}
}

func (t *terms) forget(lp *ledPartition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.shared, lp)
}

// list appends the partitions to buf.
func (t *terms) list(buf []*ledPartition) []*ledPartition {
	t.mu.Lock()
	defer t.mu.Unlock()
	for lp := range t.shared {
		buf = append(buf, lp)
	}
	return buf
}

// run tells the terms the time until ctx ends, and when this node was last in
// touch with a quorum. Consumers of a partition whose lease holds again are
// woken.
func (t *terms) run(ctx context.Context, contact func() time.Time) {
	var all []*ledPartition
	round := 0
	every(ctx, termTick, func() {
		round++
		clear(all)
		all = t.list(all[:0])
		if len(all) == 0 {
			return
		}
		now, last := time.Now(), contact()
		for _, lp := range all {
			if round%idleTicks == 0 || !lp.idle() {
				lp.tick(now, last)
			}
		}
	})
}

// idle says that telling the time can wait.
func (lp *ledPartition) idle() bool {
	return lp.term.Idle() && (lp.lease == nil || !lp.lease.lapsed.Load())
}

// tick tells a term the time, and when this node was last in touch with a
// quorum. Where that does not do for its lease, its replicas are to confirm it.
func (lp *ledPartition) tick(now, contact time.Time) {
	if lp.lease == nil {
		lp.term.Tick(now, contact)
		return
	}
	if lp.lease.touched(contact); !lp.lease.holds(now) {
		contact = time.Time{}
	}
	lp.term.Tick(now, contact)
	if lp.lease.regained(now) {
		lp.part.Wake()
	}
}
