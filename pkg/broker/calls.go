package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
)

// taskTimeout bounds how long this node works on a request of another node. The other node may give
// up earlier.
const taskTimeout = 30 * time.Second

// Calls passes calls that other nodes make for clients and operators to the room in charge.
type Calls struct {
	host      *host.Host
	publishes *publish.Router
	consumers *consume.Consumers
	topics    *directory.Directory
	ops       forward.Operations // the operations that other nodes can call by name; not changed once the node is open
	tasks     *fan.Group         // runs goroutines and waits for them
	life      context.Context    // ends when tasks have to end
	end       context.CancelCauseFunc
}

// run does periodic work until ctx ends, and returns when all of it has stopped.
func (c *Calls) run(ctx context.Context) {
	c.consumers.Start(ctx)
	c.publishes.Run(ctx)
	c.end(failure.ShuttingDown)
	c.tasks.Close()
}

// HandleForward handles a call of another node on peer.ClassForward. Calls of one session
// arrive one at a time. It does not block; payload is valid until it returns, and reply is
// called exactly once, at any time.
func (c *Calls) HandleForward(from meta.NodeID, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	answer := func(p [][]byte, err error) { reply(p, c.toRemote(err)) }
	switch kind {
	case forward.KindPublish:
		c.publishes.HandlePublish(from, session, payload, answer)
	case forward.KindSubscribe, forward.KindFetch, forward.KindAnswer, forward.KindLeave, forward.KindReady, forward.KindReturn:
		c.consumers.HandleRelay(from, session, kind, payload, answer)
	case forward.KindInFlight:
		var m forward.InFlight
		err := m.Decode(payload)
		if err == nil {
			err = c.host.TakeInFlight(m)
		}
		answer(nil, err)
	case forward.KindConverge:
		var m forward.Converge
		err := m.Decode(payload)
		c.task(answer, err, func(ctx context.Context) ([][]byte, error) { return nil, c.topics.Converge(ctx, m.Topic, m.Index) })
	case forward.KindOperate:
		var m forward.Operate
		err := m.Decode(payload)
		c.task(answer, err, func(ctx context.Context) ([][]byte, error) { return c.ops.Do(ctx, m) })
	default:
		answer(nil, fmt.Errorf("%w: unknown kind %d", failure.NoSuchCall, kind))
	}
}

// ForwardDown reports the end of another node's session: no more calls will arrive, and replies
// are no longer needed.
func (c *Calls) ForwardDown(from meta.NodeID, session uint64) {
	c.publishes.Down(from, session)
	c.consumers.Down(from, session)
}

// task answers a call with the result of work, which may take a while. If bad is not nil, it
// answers with bad and does not begin the work.
func (c *Calls) task(reply func([][]byte, error), bad error, work func(context.Context) ([][]byte, error)) {
	if bad != nil {
		reply(nil, bad)
		return
	}
	if !c.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(c.life, taskTimeout)
		defer cancel()
		reply(work(ctx))
	}) {
		reply(nil, failure.ShuttingDown)
	}
}

// toRemote returns err in the form in which it is sent to another node.
func (c *Calls) toRemote(err error) error {
	if err == nil {
		return nil
	}
	return forward.ToRemote(err)
}
