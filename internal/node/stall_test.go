package node

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestStalledDiskIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := vfstest.NewFaulty(vfs.NewMem())
		disk := vfs.NewWatch(faulty)
		f, err := disk.Create("f")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		said := make(chan error, 1)
		go func() { said <- watchDisk(ctx, disk) }()

		hold := func(d time.Duration) {
			hang := make(chan struct{})
			faulty.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{Hang: hang} })
			synced := make(chan error)
			go func() { synced <- f.Sync() }()
			time.Sleep(d)
			close(hang)
			if err := <-synced; err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			hold(stallLimit - stallLook)
		}
		select {
		case err := <-said:
			t.Fatalf("a slow disk is taken for one that hangs: %v", err)
		default:
		}
		hold(stallLimit + 2*stallLook)
		if err := <-said; err == nil || !strings.Contains(err.Error(), "sync of f") {
			t.Errorf("%v", err)
		}
	})
}

func TestStoppedProcessReportsNoDiskStall(t *testing.T) {
	var s stalls
	for i := range 3 {
		if s.look(7, true) {
			t.Fatalf("after %d looks", i+1) // an hour may have passed between two of them
		}
	}
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
