package host

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/fan"
)

// life is for how long a node works, and what it does in the background meanwhile.
type life struct {
	log   *slog.Logger
	fatal func(error)

	ctx      context.Context // ends when the node closes
	end      context.CancelFunc
	running  fan.Group             // the node's loops and what it does in the background
	leaving  atomic.Bool           // leaderships are given away, to stop
	exiting  atomic.Bool           // changes are refused
	failed   atomic.Pointer[error] // why the node cannot continue
	failOnce sync.Once
}

func newLife(log *slog.Logger, fatal func(error)) *life {
	l := &life{log: log, fatal: fatal}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// fail ends the node's work: what it acknowledged so far stands, nothing more
// will be.
func (l *life) fail(err error) {
	l.failOnce.Do(func() {
		l.failed.Store(&err)
		l.log.Error("fatal error, node stops", "error", err)
		l.fatal(err)
	})
}
