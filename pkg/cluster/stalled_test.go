package cluster

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// TestNodeWithStalledDiskIsReplaced: a disk that hangs gives no error, and its node answers. Others
// lead the partitions of the node, and the metadata if it did, until the disk responds.
func TestNodeWithStalledDiskIsReplaced(t *testing.T) {
	for _, leads := range []bool{false, true} {
		since := map[string]*atomic.Pointer[time.Time]{}
		for _, name := range three {
			since[name] = &atomic.Pointer[time.Time]{}
		}
		inWorld(t, three, 3, func(t *testing.T, w *world) {
			w.options = func(name string, o *Options) {
				o.DiskSilent = func() time.Duration {
					if began := since[name].Load(); began != nil {
						return time.Since(*began)
					}
					return 0
				}
			}
			w.start(three...)
			w.formed(3, 3)
			w.topic("t", []meta.NodeID{"n1", "n2", "n3"}, []meta.NodeID{"n2", "n3", "n1"}, []meta.NodeID{"n3", "n1", "n2"})
			w.sleep(yieldFirst + time.Second) // the controller has heard from every node, and may yield
			controller := w.leader().name
			name, other := three[0], three[1]
			for (name == controller) != leads {
				name, other = other, three[2]
			}
			if other == name {
				other = three[0]
			}
			leader := func() (all []meta.NodeID) {
				for i := range three {
					all = append(all, w.partition(other, "t", i).Leader)
				}
				return all
			}
			since[name].Store(new(time.Now()))
			if leads {
				took := w.await("another controller", func() bool { l := w.leader(); return l != nil && l.name != name })
				if took >= DefaultDiskTimeout {
					t.Errorf("another node is the controller after %v", took)
				}
			}
			took := w.await("others lead", func() bool {
				for _, l := range leader() {
					if l == meta.NodeID(name) || l == "" {
						return false
					}
				}
				return true
			})
			t.Logf("controller %v: others lead after %v", leads, took)
			if took > DefaultDiskTimeout+2*time.Second {
				t.Errorf("took %v", took)
			}
			w.sleep(time.Second)
			if l := w.leader(); l == nil || l.name == name {
				t.Errorf("%s leads the metadata while its disk is stalled", name)
			}
			if n := w.node(other).Store().Node(meta.NodeID(name)); n.State != meta.NodeDown {
				t.Errorf("%s is %s", name, n.State)
			}
			since[name].Store(nil)
			w.formed(3, 3)
			if err := w.node(name).Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestControllerStaysWhileAllDisksAreSlow: with a sync of 1.5 s everywhere, the successor is no better.
func TestControllerStaysWhileAllDisksAreSlow(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		var since atomic.Pointer[time.Time]
		w.options = func(_ string, o *Options) {
			o.DiskSilent = func() time.Duration {
				if began := since.Load(); began != nil {
					return time.Since(*began) % (1500 * time.Millisecond)
				}
				return 0
			}
		}
		w.start(three...)
		w.formed(3, 3)
		since.Store(new(time.Now()))
		moves, last := 0, w.leader().name
		for range 600 {
			w.sleep(100 * time.Millisecond)
			if l := w.leader(); l != nil && l.name != last {
				moves, last = moves+1, l.name
			}
		}
		if most := int(time.Minute / yieldFirst); moves > most {
			t.Errorf("another controller %d times in a minute, want at most %d", moves, most)
		}
	})
}
