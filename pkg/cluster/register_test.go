package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// lateRegistry is metadata that accepts a command at an index, and applies it here only when
// caughtUp is closed. Before, it refuses the given number of commands.
type lateRegistry struct {
	refusals  int
	refusal   error // nil: there is no leader
	caughtUp  chan struct{}
	proposed  []meta.NodeStarted
	index, at uint64
}

func (r *lateRegistry) Propose(_ context.Context, c meta.Command) (meta.Result, error) {
	r.proposed = append(r.proposed, c.(meta.NodeStarted))
	if len(r.proposed) <= r.refusals {
		return meta.Result{}, cmp.Or(r.refusal, errors.New("no leader"))
	}
	return meta.Result{Index: r.index}, failure.Behind
}

func (r *lateRegistry) Init(context.Context) (string, error) { return "cluster", nil }
func (r *lateRegistry) Changed() <-chan struct{}             { return r.caughtUp }
func (r *lateRegistry) Read(f func(*meta.State))             { f(&meta.State{}) }

func (r *lateRegistry) Applied() uint64 {
	select {
	case <-r.caughtUp:
		return r.index
	default:
		return r.at
	}
}

// register registers on a disk until ctx ends.
func register(ctx context.Context, r *lateRegistry, disk vfs.FS) error {
	return registerTelling(ctx, r, disk, slog.New(slog.DiscardHandler))
}

// registerTelling is register with a log.
func registerTelling(ctx context.Context, r *lateRegistry, disk vfs.FS, log *slog.Logger) error {
	work := newTasks(ctx)
	if err := disk.MkdirAll("data"); err != nil {
		return err
	}
	start, _, err := datadir.At(disk, "data").NewStart()
	if err != nil {
		return err
	}
	reg := registration{
		store: r, marks: marks{disk, "data"}, breakdown: &breakdown{failed: make(chan struct{})}, work: work,
		log: log, start: start, command: meta.NodeStarted{Node: meta.Node{ID: "n1"}},
	}
	err = reg.run(ctx)
	work.cancel(context.Canceled)
	work.wait()
	return err
}

// TestNodeActsOnlyOnMetadataSinceItsReturn: a start counts as registered once the metadata of this
// node contains it, not when the cluster's does.
func TestNodeActsOnlyOnMetadataSinceItsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &lateRegistry{caughtUp: make(chan struct{}), index: 7, at: 3}
		done := make(chan error, 1)
		go func() { done <- register(t.Context(), r, vfs.NewMem()) }()
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			t.Fatalf("registered at index %d, the start is at %d (%v)", r.at, r.index, err)
		default:
		}
		close(r.caughtUp)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A start that waits for space on the metadata leader's disk logs that once.
func TestStartWaitingForSpaceNamesDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := &lateRegistry{refusals: 5, refusal: fmt.Errorf("%w on node n2: 0 B free", failure.MetadataDiskFull), index: 7, caughtUp: make(chan struct{})}
		close(r.caughtUp)
		if err := registerTelling(t.Context(), r, vfs.NewMem(), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "on node n2: 0 B free") {
			t.Errorf("logged %q", got)
		}
	})
}

// TestEmptyDiskIsReportedUntilRegistered: a node that stops before its registration was accepted
// still reports an empty disk at the next start.
func TestEmptyDiskIsReportedUntilRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		m := marks{disk, "data"}
		if err := errors.Join(disk.MkdirAll("data"), m.set(markUnregistered)); err != nil {
			t.Fatal(err)
		}
		r := &lateRegistry{caughtUp: make(chan struct{}), index: 7, refusals: 5}
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		if err := register(ctx, r, disk); err == nil {
			t.Fatal("registered without a leader")
		}
		close(r.caughtUp)
		if err := register(t.Context(), r, disk); err != nil {
			t.Fatal(err)
		}
		if len(r.proposed) != r.refusals+1 {
			t.Errorf("proposed %d times", len(r.proposed))
		}
		for i, c := range r.proposed {
			if !c.Empty {
				t.Errorf("attempt %d does not say that the disk is empty", i)
			}
		}
		if left, err := m.has(markUnregistered); err != nil || left {
			t.Errorf("the mark is left: %v, %v", left, err)
		}
		r.proposed = r.proposed[:r.refusals]
		if err := register(t.Context(), r, disk); err != nil || r.proposed[r.refusals].Empty {
			t.Errorf("a later start: %+v, %v", r.proposed[r.refusals], err)
		}
	})
}
