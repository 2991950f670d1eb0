package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/stall"
	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

const (
	// stallGrace is how long after disk-timeout a disk counts as failed that still does not
	// respond: the process ends, and other nodes have taken over.
	stallGrace = 3 * time.Second
	// stalledClose is how long closing may take when the disk hangs: connections
	// are closed within it, files perhaps never.
	stalledClose = 2 * time.Second
)

// slowDisk is what a node knows about a disk that does not respond.
type slowDisk struct {
	disk    *hook.Watch
	timeout time.Duration // after which the disk counts as stalled
	log     *slog.Logger
	silent  atomic.Int64 // for how long an operation has been in progress, ns
}

// isSilent returns for how long an operation has been in progress. Beyond the timeout the node does
// not count as serving, and other nodes lead its partitions.
func (s *slowDisk) isSilent() time.Duration { return time.Duration(s.silent.Load()) }

// watch returns an error when the disk has failed, and nil when ctx ends.
func (s *slowDisk) watch(ctx context.Context) (err error) {
	stall.WatchDisk(ctx, s.disk, func(op vfs.Op, unanswered time.Duration) bool {
		stalled := unanswered >= s.timeout
		switch was := time.Duration(s.silent.Swap(int64(unanswered))) >= s.timeout; {
		case was == stalled:
		case stalled:
			s.log.Error("disk stalled; other nodes take over the partitions of this node until it responds",
				"operation", string(op.Kind), "path", op.Name, "for", unanswered)
		default:
			s.log.Info("disk responds again; this node serves its partitions again")
		}
		if unanswered >= s.timeout+stallGrace {
			err = fmt.Errorf("disk stalled: %v of %s has not returned for %v", op.Kind, op.Name, unanswered)
		}
		return err == nil
	})
	return err
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
		return fmt.Errorf("the disk may be stalled: data is not closed within %v", d)
	}
}
