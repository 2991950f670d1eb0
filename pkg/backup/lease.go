package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
)

// A marker tells other processes for leaseEnds that its owner is at work. The owner renews it after
// leaseRenewed at the earliest, and gives up if it could not renew it for leaseHolds. The difference
// covers clocks that differ.
const (
	leaseRenewed = 5 * time.Minute
	leaseHolds   = 30 * time.Minute
	leaseEnds    = time.Hour
)

// errLapsed is the error of an owner that was suspended for too long, or whose marker was removed.
var errLapsed = fate.Refuse("the command did not proceed for too long, or its backup was deleted; what it uses may be gone, repeat it")

// lease is a marker in the repository.
type lease struct {
	r       *Repository
	name    string
	renewed time.Time // without the monotonic clock, which stops while the machine is suspended
}

// take stores the marker.
func (r *Repository) take(ctx context.Context, name string) (*lease, error) {
	l := &lease{r: r, name: name}
	return l, l.store(ctx)
}

func (l *lease) store(ctx context.Context) error {
	now := l.r.now().Round(0)
	if err := l.r.put(ctx, l.name, thisOwner(procRoot).encode()); err != nil {
		return fmt.Errorf("store %s: %w", l.name, err)
	}
	l.renewed = now
	return nil
}

// renew renews the marker if it is time. It returns errLapsed if it is too late, or if the marker was
// removed: storing it again would hide that.
func (l *lease) renew(ctx context.Context) error {
	if err := l.check(); err != nil || l.r.now().Round(0).Sub(l.renewed) < leaseRenewed {
		return err
	}
	if there, err := l.r.exists(ctx, l.name); err != nil {
		return fmt.Errorf("look for %s: %w", l.name, err)
	} else if !there {
		return errLapsed
	}
	return l.store(ctx)
}

// check returns errLapsed if the marker was not renewed in time.
func (l *lease) check() error {
	if d := l.r.now().Round(0).Sub(l.renewed); d > leaseHolds || d < -leaseHolds {
		return errLapsed
	}
	return nil
}

// release removes the marker, also after the context has ended.
func (l *lease) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return l.r.store.Remove(ctx, l.name)
}

// releaseTimeout limits how long a command takes to remove its marker.
const releaseTimeout = 10 * time.Second

// fresh reports whether the owner of a marker may be at work: the marker is not old, and the owner is
// not a process of this machine that has ended.
func (r *Repository) fresh(ctx context.Context, marker Object) bool {
	if r.now().Sub(marker.Modified) >= leaseEnds {
		return false
	}
	text, err := r.read(ctx, marker.Name)
	return err != nil || !thisOwner(procRoot).ended(procRoot, text)
}

// keepEvery is how often a lease is looked at that is kept in the background.
const keepEvery = time.Minute

// Reading calls f while no backup can be deleted: deletions are refused, and the error is ErrBusy while
// one is in progress. The context of f ends if that can no longer be ensured. If the store cannot be
// written, f is called without protection, after unprotected, which gets the reason.
func (r *Repository) Reading(ctx context.Context, unprotected func(error), f func(context.Context) error) (err error) {
	l, err := r.take(ctx, readingName(r.now()))
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		unprotected(err)
		return f(ctx)
	}
	defer func() {
		if gone := l.release(ctx); err == nil && gone != nil {
			err = fmt.Errorf("remove %s: %w; deletions of backups are refused for up to an hour", l.name, gone)
		}
	}()
	if err := r.noDeletion(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go l.keep(ctx, cancel)
	return errors.Join(f(ctx), onlyLapsed(ctx))
}

// onlyLapsed returns errLapsed if a context ended because of it.
func onlyLapsed(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errLapsed) {
		return err
	}
	return nil
}

// keep renews a lease until ctx ends, or until it is too late: then it calls lapsed.
func (l *lease) keep(ctx context.Context, lapsed context.CancelCauseFunc) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := l.renew(ctx); errors.Is(err, errLapsed) { // after another error it tries again
				lapsed(err)
				return
			}
		}
	}
}
