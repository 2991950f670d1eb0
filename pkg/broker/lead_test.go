package broker

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// The elected node cannot store the start of a new channel for a while, because
// its disk is full. There is one term in an epoch, and the node leads with that
// term.
func TestLeaderThatCannotStoreChannelStartLeads(t *testing.T) {
	var faulty *vfstest.Faulty
	var failed atomic.Int64
	l := newLan(t, func(o *Options) {
		if o.Self == "n2" {
			faulty = vfstest.NewFaulty(o.FS)
			o.FS = faulty
		}
	}, "n1", "n2")
	l.create("t", "n1", "n2")
	l.inSync("t", 0, 2)
	l.mustPut("t", 0, "a")
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpWrite && strings.Contains(op.Name, "positions") {
			failed.Add(1)
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	if _, err := l.store.Propose(t.Context(), meta.CreateChannel{Topic: "t", Channel: "c"}); err != nil {
		t.Fatal(err)
	}
	failed.Store(0)
	l.elect("t", 0, "n2")
	n2 := l.at("n2").Host.Lookup("t").Held(0)
	l.eventually("a turn to fail", func() bool { return failed.Load() > 0 && n2.Standby.Load() == nil })
	l.mustPut("t", 0, "b")
	faulty.Decide(nil)
	l.mustPut("t", 0, "c")
	l.eventually("the channel's start to be stored", func() bool { return reasonCount(l.at("n2").Node.Health(), "leader_failed") == 0 })
	if got := l.subscribe("t", "c", 0).take(3); got != "a b c" {
		t.Errorf("got %q", got)
	}
}
