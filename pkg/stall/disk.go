package stall

import (
	"context"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

// DiskCheck is the period at which WatchDisk looks at the operations in progress.
const DiskCheck = 400 * time.Millisecond

// sameOperation determines by repeated checks for how long a disk has not responded. It counts checks
// instead of time, so that a process which was stopped for a while does not blame its disk.
type sameOperation struct {
	number int64
	n      int
}

// check takes the operation that has been in progress for longest, and returns for how long it has
// been observed to be the same one.
func (s *sameOperation) check(number int64, busy bool) time.Duration {
	if !busy || number != s.number {
		s.number, s.n = number, 0
		return 0
	}
	s.n++
	return time.Duration(s.n) * DiskCheck
}

// WatchDisk calls observe at each check, until ctx ends or observe returns false, with the
// operation that has been in progress for longest, and for how long it has been observed; 0: the
// disk responds. Durations are at most DiskCheck too short.
func WatchDisk(ctx context.Context, disk *hook.Watch, observe func(op vfs.Op, unanswered time.Duration) bool) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	var s sameOperation
	for {
		tick.Reset(beat.Until(time.Now(), DiskCheck))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		number, op, busy := disk.Oldest()
		if !observe(op, s.check(number, busy)) {
			return
		}
	}
}
