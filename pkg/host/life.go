package host

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/fan"
)

// life is the lifetime of a node and its background work.
type life struct {
	log   *slog.Logger
	fatal func(error)

	ctx      context.Context // ends when the node closes
	end      context.CancelFunc
	running  fan.Group             // the node's loops and other background work
	leaving  atomic.Bool           // leaderships are transferred away, before a stop
	exiting  atomic.Bool           // changes are refused
	failed   atomic.Pointer[error] // why the node cannot continue
	failOnce sync.Once
}

func newLife(log *slog.Logger, fatal func(error)) *life {
	l := &life{log: log, fatal: fatal}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// fail ends the node's work: earlier acknowledgements hold, and nothing more is acknowledged.
func (l *life) fail(err error) {
	l.failOnce.Do(func() {
		l.failed.Store(&err)
		l.log.Error("fatal error, node stops", "error", err)
		l.fatal(err)
	})
}
