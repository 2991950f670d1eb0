package cluster

import (
	"context"
	"sync"

	"github.com/brokerd/brokerd/internal/fan"
)

// breakdown stores the reason why the node cannot continue.
type breakdown struct {
	mu     sync.Mutex // guards err
	err    error
	failed chan struct{} // closed when err is set
}

// fail sets the reason; only the first one is kept.
func (f *breakdown) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		close(f.failed)
	}
}

func (f *breakdown) cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// tasks are the goroutines of a Node.
type tasks struct {
	ctx     context.Context // ends when the tasks must end
	cancel  context.CancelCauseFunc
	running fan.Group
}

// newTasks returns tasks that end with ctx at the latest.
func newTasks(ctx context.Context) *tasks {
	life, end := context.WithCancelCause(ctx)
	return &tasks{ctx: life, cancel: end}
}

// start runs f unless the Node is closed, and reports whether it does.
func (t *tasks) start(f func()) bool { return t.running.Go(f) }

// must runs f, which is short, even if the Node is closed, because a caller waits for its
// notification.
func (t *tasks) must(f func()) {
	if !t.start(f) {
		go f()
	}
}

// onClose calls f when a channel is closed, until the returned function is called.
func (t *tasks) onClose(closed <-chan struct{}, f func()) (stop func()) {
	stopped := make(chan struct{})
	t.start(func() {
		select {
		case <-closed:
			f()
		case <-stopped:
		}
	})
	return func() { close(stopped) }
}

// wait prevents further tasks from starting, and returns when none is running.
func (t *tasks) wait() { t.running.Close() }
