package node

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// A stalled disk counts as failed: other nodes should take over, and do so once this node is down.
const (
	stallLimit = 5 * time.Second
	stallLook  = 400 * time.Millisecond
	// stalledClose is how long closing may take when the disk hangs: connections
	// are closed within it, files perhaps never.
	stalledClose = 2 * time.Second
)

// stalls determines by repeated checks whether a disk is stalled. It counts checks instead of time,
// so that a process which was stopped for a while does not blame its disk.
type stalls struct {
	number int64
	looks  int
}

// look takes the operation that has been in progress for longest, and reports whether it has been
// the same for the limit.
func (s *stalls) look(number int64, busy bool) bool {
	if !busy || number != s.number {
		s.number, s.looks = number, 0
		return false
	}
	s.looks++
	return s.looks >= int(stallLimit/stallLook)
}

// watchDisk returns an error when the disk hangs, and nil when ctx ends.
func watchDisk(ctx context.Context, disk *vfs.Watch) error {
	tick := time.NewTimer(0)
	defer tick.Stop()
	var s stalls
	for {
		tick.Reset(beat.Until(time.Now(), stallLook))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if number, op, busy := disk.Oldest(); s.look(number, busy) {
			return fmt.Errorf("disk stalled: %v of %s has not returned for %v", op.Kind, op.Name, stallLimit)
		}
	}
}

// closeWithin calls f and returns what it returns, or an error if that takes too
// long; f continues then.
func closeWithin(d time.Duration, f func() error) error {
	closed := make(chan error, 1)
	go func() { closed <- f() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(d):
		return fmt.Errorf("not closed within %v", d)
	}
}
