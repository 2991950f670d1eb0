package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/stall"
	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

// TestStalledDiskIsReported: the node first does not count as serving, and ends if that does not
// help.
func TestStalledDiskIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := vfstest.NewFaulty(vfs.NewMem())
		s := &slowDisk{disk: hook.NewWatch(faulty), timeout: 2 * time.Second, log: slog.New(slog.DiscardHandler)}
		f, err := s.disk.Create("f")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		said := make(chan error, 1)
		go func() { said <- s.watch(ctx) }()

		hold := func(d time.Duration) (stalled bool) {
			hang := make(chan struct{})
			faulty.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{Hang: hang} })
			synced := make(chan error)
			go func() { synced <- f.Sync() }()
			time.Sleep(d)
			synctest.Wait()
			stalled = s.isSilent() >= s.timeout
			close(hang)
			if err := <-synced; err != nil {
				t.Fatal(err)
			}
			time.Sleep(stall.DiskCheck + time.Millisecond)
			synctest.Wait()
			if s.isSilent() >= s.timeout && len(said) == 0 {
				t.Errorf("held for %v: stalled although the disk responds", d)
			}
			return stalled
		}
		for range 3 {
			if hold(s.timeout) {
				t.Error("a slow disk is taken for one that hangs")
			}
			if !hold(s.timeout + 2*stall.DiskCheck) {
				t.Error("the disk is not stalled")
			}
		}
		hold(s.timeout + stallGrace)
		select {
		case err := <-said:
			t.Fatalf("a slow disk is taken for one that has failed: %v", err)
		default:
		}
		hold(s.timeout + stallGrace + 2*stall.DiskCheck)
		if err := <-said; err == nil || !strings.Contains(err.Error(), "sync of f") {
			t.Errorf("%v", err)
		}
	})
}

func TestClosingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		if err := closeWithin(time.Second, func() error { <-never; return nil }); err == nil {
			t.Error("what never closed is closed")
		}
		close(never)
		broken := errors.New("broken")
		if err := closeWithin(time.Second, func() error { return broken }); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

func TestServeReturnsWhenNodeFails(t *testing.T) {
	c := testNode(t)
	web, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Listeners.HTTP = []net.Listener{web}
	n, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- n.Serve() }()
	broken := errors.New("broken")
	n.failed <- broken
	err = <-served
	if _, disk := errors.AsType[*DiskError](err); !disk || !errors.Is(err, broken) {
		t.Errorf("%v, want a DiskError", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
