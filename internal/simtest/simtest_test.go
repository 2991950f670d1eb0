package simtest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

func write(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	if err := vfs.WriteFileSynced(fsys, name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	text, err := vfs.ReadFile(fsys, name, 100)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestWritesOfDeadProcessAreLost(t *testing.T) {
	m := NewMount(vfs.NewCrashable())
	write(t, m, "before", "1")
	left := m.Cut(vfs.Crash{KeepPercent: 100})
	write(t, m, "after", "2")
	if read(t, left, "before") != "1" || read(t, left, "after") == "2" {
		t.Error("the disk that is left is not the one of the moment of the cut")
	}
}

func TestTrapFiresBeforeItsChange(t *testing.T) {
	m := NewMount(vfs.NewCrashable())
	var left *vfs.Mem
	m.Trap(0, func() { left = m.Cut(vfs.Crash{KeepPercent: 100}) })
	write(t, m, "file", "1")
	if names, err := left.ReadDir("."); err != nil || len(names) > 0 {
		t.Errorf("%v was there before the first change, %v", names, err)
	}
	write(t, m, "file", "2") // the trap is gone
	if read(t, m, "file") != "2" {
		t.Error("the process does not see what it wrote")
	}
}

func TestLyingDiskLosesSyncedData(t *testing.T) {
	m := NewLyingMount(vfs.NewCrashable())
	write(t, m, "file", "1")
	if left := m.Cut(vfs.Crash{}); read(t, left, "file") == "1" {
		t.Error("it was kept")
	}
	honest := NewMount(vfs.NewCrashable())
	write(t, honest, "file", "1")
	if left := honest.Cut(vfs.Crash{}); read(t, left, "file") != "1" {
		t.Error("an honest disk lost it")
	}
}

func TestBrokenDiskFailsChanges(t *testing.T) {
	m := NewMount(vfs.NewCrashable())
	write(t, m, "file", "1")
	broken := errors.New("broken")
	m.Break(broken)
	if err := vfs.WriteFileSynced(m, "file", nil); !errors.Is(err, broken) {
		t.Errorf("writing: %v", err)
	}
	if read(t, m, "file") != "1" {
		t.Error("reading fails")
	}
}

// TestHistoryFindsViolations adds each kind of violation.
func TestHistoryFindsViolations(t *testing.T) {
	tests := []struct {
		name string
		do   func(h *History) (log []string)
		want string
	}{
		{"nothing", func(h *History) []string {
			a, b := h.Call(1), h.Call(2)
			h.Resolve(a, Acked, 0, 1)
			h.Resolve(b, Unknown, 0, 0)
			return []string{a, b}
		}, ""},
		{"an unknown one that is not there", func(h *History) []string {
			h.Resolve(h.Call(1), Unknown, 0, 0)
			return nil
		}, ""},
		{"lost at the end", func(h *History) []string {
			h.Resolve(h.Call(1), Acked, 0, 1)
			return nil
		}, "is not there"},
		{"lost in the middle", func(h *History) []string {
			a, b := h.Call(1), h.Call(1)
			h.Resolve(a, Acked, 0, 1)
			h.Resolve(b, Acked, 1, 1)
			return []string{"p9-9", b}
		}, "p1-1 was acknowledged at 0 in epoch 1 and is not there"},
		{"invented", func(*History) []string { return []string{"x"} }, "was not published"},
		{"twice", func(h *History) []string {
			a := h.Call(1)
			return []string{a, a}
		}, "twice"},
		{"failed and there", func(h *History) []string {
			a := h.Call(1)
			h.Resolve(a, Failed, 0, 0)
			return []string{a}
		}, "told that it failed"},
		{"settled twice", func(h *History) []string {
			a := h.Call(1)
			h.Resolve(a, Unknown, 0, 0)
			h.Resolve(a, Acked, 0, 1)
			return []string{a}
		}, "or again"},
		{"two at one place", func(h *History) []string {
			a, b := h.Call(1), h.Call(2)
			h.Resolve(a, Acked, 0, 1)
			h.Resolve(b, Acked, 0, 1)
			return []string{a}
		}, "both acknowledged at 0"},
		{"out of a publisher's order", func(h *History) []string {
			h.Resolve(h.Call(1), Acked, 5, 1)
			h.Resolve(h.Call(1), Acked, 4, 1)
			return nil
		}, "knew of 6 before"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := NewHistory()
			got := h.Check(0, tt.do(h))
			if (tt.want == "") != (len(got) == 0) || !slices.ContainsFunc(append(got, ""), func(s string) bool { return strings.Contains(s, tt.want) }) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTraceKeepsTheLastEvents(t *testing.T) {
	tr := NewTrace()
	for i := range 3 * traceLimit {
		tr.Add("event %d", i)
	}
	text := tr.String()
	if !strings.Contains(text, "event 1199") || strings.Contains(text, "event 700\n") || !strings.HasPrefix(text, "the last 400 of 1200") {
		t.Error(text[:200])
	}
}

// proceed delivers and finishes the next n messages in order.
func proceed(h *History, c *Channel, n int) {
	for range n {
		at := c.next
		c.Deliver(h.Call(1), at, false)
		c.Finish(at)
	}
}

// TestKeyedChannelFindsViolations adds each kind of violation to one of two keys: the first
// letters.
func TestKeyedChannelFindsViolations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name string
			do   func(c *Channel)
			want string // in Check
		}{
			{"all is well", func(c *Channel) { c.Finish(0); c.Deliver("p1-3", 2, false); c.Finish(1); c.Deliver("p1-4", 3, false) }, ""},
			{"before its turn", func(c *Channel) { c.Deliver("p1-3", 2, false) }, "key 1: p1-3 was delivered at 2, and 0 was not finished"},
			{"another key is finished", func(c *Channel) { c.Finish(1); c.Deliver("p1-3", 2, false) }, "and 0 was not finished"},
			{"one is passed over", func(c *Channel) { c.Finish(0); c.Deliver("p1-5", 4, false) }, "p1-5 was delivered at 4, and 1 was not"},
			{"back after an advance", func(c *Channel) {
				c.Finish(0)
				c.Deliver("p1-3", 2, false)
				c.Deliver("p1-1", 0, false)
			}, "key 1: p1-1 was delivered at 0, and 2 had been before"},
			{"back, as power was lost", func(c *Channel) {
				c.Finish(0)
				c.Deliver("p1-3", 2, false)
				c.LosePower()
				c.Deliver("p1-1", 0, false)
			}, ""},
			{"back, as positions were lost", func(c *Channel) {
				c.Finish(0)
				time.Sleep(2 * unsynced)
				c.Deliver("p1-3", 2, false)
				time.Sleep(2 * unsynced)
				c.LosePositions()
				c.Deliver("p1-1", 0, false)
			}, ""},
		} {
			h := NewHistory()
			c := NewKeyedChannel(h, func(name string) string { return strconv.Itoa(int(name[len(name)-1]) % 2) })
			for at := range uint64(6) {
				h.Resolve(h.Call(1), Acked, at, 1)
			}
			c.Deliver("p1-1", 0, false)
			c.Deliver("p1-2", 1, false)
			tt.do(c)
			if got := strings.Join(c.Check(), "; "); got == "" != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	})
}

// TestChannelFindsViolations adds each kind of violation.
func TestChannelFindsViolations(t *testing.T) {
	tests := []struct {
		name    string
		ordered bool
		do      func(h *History, c *Channel)
		want    string // in Check
		missing int
	}{
		{"all is well", true, func(h *History, c *Channel) {
			for at := range uint64(3) {
				name := h.Call(1)
				h.Resolve(name, Acked, at, 1)
				c.Deliver(name, at, false)
				c.Deliver(name, at, false)
				c.Finish(at)
			}
		}, "", 0},
		{"not delivered", false, func(h *History, _ *Channel) { h.Resolve(h.Call(1), Acked, 0, 1) }, "", 1},
		{"invented", false, func(_ *History, c *Channel) { c.Deliver("x", 0, false) }, "was not published", 0},
		{"another one at its place", false, func(h *History, c *Channel) {
			c.Deliver(h.Call(1), 0, false)
			c.Deliver(h.Call(1), 0, false)
		}, "and \"p1-1\" before", 0},
		{"before its turn", true, func(h *History, c *Channel) {
			c.Deliver(h.Call(1), 0, false)
			c.Deliver(h.Call(1), 1, false)
		}, "0 was not finished", 0},
		{"back after an advance", true, func(h *History, c *Channel) {
			a, b := h.Call(1), h.Call(1)
			c.Deliver(a, 0, false)
			c.Finish(0)
			c.Deliver(b, 1, false)
			c.Deliver(a, 0, false)
		}, "1 had been before", 0},
		{"back, from a leader of before", true, func(h *History, c *Channel) {
			proceed(h, c, 2)
			c.Deliver("p1-1", 0, true)
		}, "", 0},
		{"back, as power was lost", true, func(h *History, c *Channel) {
			proceed(h, c, 3)
			c.LosePower()
			c.Deliver("p1-2", 1, false)
			c.Deliver("p1-3", 2, false)
		}, "", 0},
		{"back, and back again", true, func(h *History, c *Channel) {
			proceed(h, c, 3)
			c.LosePower()
			c.Deliver("p1-2", 1, false)
			c.Deliver("p1-1", 0, false)
		}, "1 had been before", 0},
		{"back further than to what was synced", true, func(h *History, c *Channel) {
			proceed(h, c, 3)
			time.Sleep(unsynced)
			proceed(h, c, 2)
			c.LosePower()
			c.Deliver("p1-2", 1, false)
		}, "no loss of power explains less than 2", 0},
		{"back to what was synced before a pause", true, func(h *History, c *Channel) {
			proceed(h, c, 3)
			time.Sleep(10 * unsynced)
			c.LosePower()
			c.Deliver("p1-1", 0, false)
		}, "", 0},
		{"back long after power was lost", true, func(h *History, c *Channel) {
			proceed(h, c, 3)
			c.LosePower()
			time.Sleep(2 * unsynced)
			proceed(h, c, 1)
			c.Deliver("p1-3", 2, false)
		}, "3 had been before", 0},
		{"back to the start, as positions were lost", true, func(h *History, c *Channel) {
			proceed(h, c, 3)
			time.Sleep(unsynced)
			proceed(h, c, 2)
			c.LosePositions()
			c.Deliver("p1-1", 0, false)
			c.Deliver("p1-2", 1, false)
		}, "", 0},
		{"past what was not finished, as positions were lost", true, func(h *History, c *Channel) {
			proceed(h, c, 1)
			c.LosePositions()
			c.Deliver(h.Call(1), 2, false)
		}, "1 was not finished", 0},
		{"past what was not finished, as power was lost", true, func(h *History, c *Channel) {
			proceed(h, c, 1)
			c.LosePower()
			c.Deliver(h.Call(1), 2, false)
		}, "1 was not finished", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := NewHistory()
			c := NewChannel(h, tt.ordered)
			synctest.Test(t, func(*testing.T) { tt.do(h, c) })
			got := strings.Join(c.Check(), "\n")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
			if n, _ := c.Missing(); n != tt.missing {
				t.Errorf("%d are missing", n)
			}
		})
	}
}

// TestFullDiskAcceptsWhatFits: preallocated space can be written, and no file grows.
func TestFullDiskAcceptsWhatFits(t *testing.T) {
	m := NewMount(vfs.NewCrashable())
	f, err := m.Create("/a.log")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Preallocate(0, 10); err != nil {
		t.Fatal(err)
	}
	for _, full := range []bool{true, false} {
		m.Fill(full)
		if _, err := f.WriteAt(make([]byte, 5), 5); err != nil {
			t.Errorf("full %v: within what is reserved: %v", full, err)
		}
		if err := f.SyncData(); err != nil {
			t.Errorf("full %v: sync: %v", full, err)
		}
		_, created := m.Create("/b.log")
		_, wrote := f.WriteAt(make([]byte, 6), 5)
		for what, err := range map[string]error{"create": created, "write": wrote, "reserve": f.Preallocate(0, 12), "make a directory": m.MkdirAll("/d")} {
			if errors.Is(err, syscall.ENOSPC) != full {
				t.Errorf("full %v: %s: %v", full, what, err)
			}
		}
	}
}

// TestLogSyncTakesTime: syncs of other files, and other operations, take none.
func TestLogSyncTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMount(vfs.NewCrashable())
		m.Slow(func() time.Duration { return time.Second })
		for name, want := range map[string]time.Duration{"/a.log": time.Second, "/a.index": 0} {
			f, err := m.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := f.WriteAt([]byte("x"), 0); err != nil {
				t.Fatal(err)
			}
			if err := f.SyncData(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("%s: %v", name, took)
			}
		}
	})
}

// TestHungSyncReturnsLate: one of a file that is not hung returns at once, as do other changes.
func TestHungSyncReturnsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMount(vfs.NewCrashable())
		for name, want := range map[string]time.Duration{"/a.log": 5 * time.Second, "/journal-0": 5 * time.Second, "/a.index": 0} {
			f, err := m.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			m.Hang(5 * time.Second)
			began := time.Now()
			if _, err := f.WriteAt([]byte("x"), 0); err != nil || time.Since(began) > 0 {
				t.Fatal(err, time.Since(began))
			}
			for range 2 { // the second is after the disk has responded
				if err := f.SyncData(); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != want {
					t.Errorf("%s: %v", name, took)
				}
			}
		}
	})
}
