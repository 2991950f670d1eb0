package backup

import (
	"context"
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

// errLapsed is the error of an owner that was suspended for too long.
var errLapsed = fate.Refuse("the command did not proceed for too long, and others may have deleted what it uses; repeat it")

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
	if err := l.r.put(ctx, l.name, nil); err != nil {
		return fmt.Errorf("store %s: %w", l.name, err)
	}
	l.renewed = now
	return nil
}

// renew renews the marker if it is time. It returns errLapsed if it is too late.
func (l *lease) renew(ctx context.Context) error {
	if err := l.check(); err != nil || l.r.now().Round(0).Sub(l.renewed) < leaseRenewed {
		return err
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

// fresh reports whether the owner of a marker may be at work.
func (r *Repository) fresh(marker Object) bool { return r.now().Sub(marker.Modified) < leaseEnds }
