package broker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/lease"
	"github.com/brokerd/brokerd/pkg/meta"
)

// taskTimeout bounds what another node can have this one work on. It gives up
// before, if it is in a hurry.
const taskTimeout = 30 * time.Second

// forwarding is what a node does for the clients of others, and what it asks of
// others for its own.
type forwarding struct {
	b       *Broker
	outlets *outlets
	inlets  *inlets
	feeds   *feeds
	adopter *adopter
	pulse   *lease.Pulse
	handles atomic.Uint64 // of relays, given out

	ctx    context.Context // of the tasks
	cancel context.CancelCauseFunc

	mu     sync.Mutex // guards closed
	closed bool       // nothing joins tasks any more
	tasks  sync.WaitGroup
}

func newForwarding(b *Broker) *forwarding {
	f := &forwarding{b: b}
	f.outlets = newOutlets(b.directory, b.hasRoom, f.start)
	f.inlets = &inlets{d: b.directory, hasRoom: b.hasRoom, start: f.start, all: map[inletKey]*inlet{}}
	f.feeds = &feeds{f: f, all: map[feedKey]*feed{}}
	f.adopter = newAdopter(b)
	f.pulse = lease.NewPulse(b.o.Lease, lease.NewSuspension(lease.TimeSuspended))
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	return f
}

// run does what comes up by itself until ctx ends, and returns when all is
// still.
func (f *forwarding) run(ctx context.Context) {
	f.start(func() { f.adopter.run(ctx) })
	if f.b.o.Remote != nil {
		f.start(func() { beat.Every(ctx, f.pulse.Interval(), func() { f.pulse.Beat(time.Now()) }) })
	}
	f.outlets.run(ctx)
	f.cancel(ErrExiting)
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.tasks.Wait()
}

// start runs a goroutine that run waits for. It returns false after the end.
func (f *forwarding) start(task func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.tasks.Go(task)
	return true
}

// HandleForward takes a call that another node made on peer.ClassForward. The
// calls of one session come one after the other. It does not wait; payload is
// good until it returns, and reply is called exactly once, at any time.
func (f *forwarding) HandleForward(from meta.NodeID, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	answer := func(p [][]byte, err error) { reply(p, toRemote(err)) }
	switch kind {
	case forward.KindPublish:
		f.inlets.take(from, session, payload, answer)
	case forward.KindSubscribe, forward.KindFetch, forward.KindAnswer, forward.KindLeave, forward.KindReady:
		f.feeds.handle(from, session, kind, payload, answer)
	case forward.KindSettle:
		m, err := forward.DecodeSettle(payload)
		f.task(answer, err, func(ctx context.Context) ([][]byte, error) { return nil, f.b.Settle(ctx, m.Topic, m.Index) })
	case forward.KindOperate:
		m, err := forward.DecodeOperate(payload)
		f.task(answer, err, func(ctx context.Context) ([][]byte, error) { return f.b.ops.Do(ctx, m) })
	default:
		answer(nil, fmt.Errorf("%w: unknown kind %d", forward.ErrNoSuchCall, kind))
	}
}

// ForwardDown is told that a session of another node has ended: nothing more
// comes of it, and nobody waits for answers.
func (f *forwarding) ForwardDown(from meta.NodeID, session uint64) {
	f.inlets.down(from, session)
	f.feeds.down(from, session)
}

// task answers a call with what work returns, which may take a while. bad is why
// it is not even begun.
func (f *forwarding) task(reply func([][]byte, error), bad error, work func(context.Context) ([][]byte, error)) {
	if bad != nil {
		reply(nil, bad)
		return
	}
	if !f.start(func() {
		ctx, cancel := context.WithTimeout(f.ctx, taskTimeout)
		defer cancel()
		reply(work(ctx))
	}) {
		reply(nil, ErrExiting)
	}
}
