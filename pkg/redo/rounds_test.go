package redo

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// appending is a member of rounds that appends to a file.
type appending struct {
	f     vfs.File
	next  string // to be appended; "": it writes nothing
	at    int64
	alone bool       // its sync could not begin
	told  chan error // the outcome of the sync
}

func (a *appending) Write(*vfs.Gathering) vfs.Sync {
	if a.next == "" {
		return nil
	}
	n, err := vfs.WriteDeferred(a.f, []byte(a.next), a.at)
	a.at += int64(n)
	if err != nil {
		a.told <- err
		return nil
	}
	s, ok := vfs.BeginSync(a.f)
	if a.alone = !ok; a.alone {
		a.told <- a.f.SyncData()
		return nil
	}
	return s
}

func (a *appending) Synced(_ *vfs.Gathering, err error) { a.told <- err }

// member returns a member that appends to a live file.
func member(t *testing.T, s *FS, name, next string) *appending {
	t.Helper()
	f := made(t, s, name)
	journaled(t, s, f, "begin ", 0)
	return &appending{f: f, next: next, at: 6, told: make(chan error, 1)}
}

func join(t *testing.T, all ...*appending) {
	t.Helper()
	for _, a := range all {
		if !vfs.Join(a.f, a) {
			t.Fatal("a live file does not take part in rounds")
		}
	}
}

func TestRoundIsSyncedWithOneRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashable()
		d := vfstest.NewFaulty(disk)
		s := begun(t, d, small())
		first := member(t, s, root+"/first", "a")
		var others []*appending
		for i := range 5 {
			others = append(others, member(t, s, fmt.Sprintf("%s/%d", root, i), fmt.Sprint("b", i)))
		}
		others[3].next = ""
		gate, syncs := make(chan struct{}), 0
		d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind != vfs.OpSyncData || op.Name != halfPath(small().Dir, 0) {
				return vfstest.Fault{}
			}
			syncs++
			return vfstest.Fault{Hang: gate}
		})
		join(t, first)
		synctest.Wait()
		join(t, others...)
		synctest.Wait()
		if len(first.told) > 0 {
			t.Error("Synced was called before the sync")
		}
		if got := lost(t, disk, root+"/first"); got != "begin " {
			t.Errorf("before the sync the file holds %q", got)
		}
		close(gate)
		synctest.Wait()
		for i, a := range append(others, first) {
			if a.next == "" {
				if len(a.told) > 0 {
					t.Error("Synced was called for a member that has written nothing")
				}
				continue
			}
			if err := <-a.told; err != nil || a.alone {
				t.Errorf("member %d: alone %v, %v", i, a.alone, err)
			}
		}
		if syncs != 2 {
			t.Errorf("%d syncs of the journal, want one for each of two rounds", syncs)
		}
		for i, a := range others {
			if got := lost(t, disk, fmt.Sprintf("%s/%d", root, i)); got != "begin "+a.next {
				t.Errorf("file %d holds %q", i, got)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRoundMayTakeSeveralRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashable()
		d := vfstest.NewFaulty(disk)
		o := small()
		o.FileBytes = 64 << 10
		s := begun(t, d, o)
		first := member(t, s, root+"/first", "a")
		var others []*appending
		for i := range 40 { // 32 KiB, and a record has 16
			others = append(others, member(t, s, fmt.Sprintf("%s/%d", root, i), strings.Repeat("b", 800)))
		}
		gate := make(chan struct{})
		d.Decide(failing(vfs.OpSyncData, halfPath(o.Dir, 0), vfstest.Fault{Hang: gate}))
		join(t, first)
		synctest.Wait()
		join(t, others...)
		synctest.Wait()
		syncs := 0
		d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpSyncData && op.Name == halfPath(o.Dir, 0) {
				syncs++
			}
			return vfstest.Fault{}
		})
		close(gate)
		for i, a := range others {
			if err := <-a.told; err != nil || a.alone {
				t.Errorf("member %d: alone %v, %v", i, a.alone, err)
			}
			left := disk.CrashClone(vfs.Crash{})
			mustOpen(t, left, o)
			if got, err := vfs.ReadFile(left, fmt.Sprintf("%s/%d", root, i), 1000); err != nil || string(got) != "begin "+a.next {
				t.Errorf("file %d holds %d bytes, %v", i, len(got), err)
			}
		}
		if syncs < 2 {
			t.Errorf("%d syncs for two records and more", syncs)
		}
		<-first.told
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFailedRoundSyncFailsAllMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashable()
		d := vfstest.NewFaulty(disk)
		s := begun(t, d, small())
		all := []*appending{member(t, s, root+"/f", "x"), member(t, s, root+"/g", "y")}
		d.Decide(failing(vfs.OpSyncData, halfPath(small().Dir, 0), vfstest.Fault{Err: syscall.EIO}))
		join(t, all...)
		synctest.Wait()
		for _, a := range all {
			if err := <-a.told; !errors.Is(err, syscall.EIO) {
				t.Errorf("Synced got %v", err)
			}
		}
		d.Decide(nil)
		join(t, all...)
		synctest.Wait()
		for _, a := range all {
			if err := <-a.told; !errors.Is(err, syscall.EIO) {
				t.Errorf("with the disk working again Synced got %v", err)
			}
		}
		if err := s.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("it closed with %v", err)
		}
	})
}

func TestRoundExclusions(t *testing.T) {
	s := begun(t, vfs.NewMem(), small())
	f := made(t, s, root+"/f")
	a := &appending{f: f, next: "x", told: make(chan error, 1)}
	if vfs.Join(f, a) {
		t.Error("a file of which the journal holds nothing takes part")
	}
	if _, ok := vfs.BeginSync(f); ok {
		t.Error("the sync of a file began of which the journal holds nothing")
	}
	journaled(t, s, f, "begin ", 0)
	write := func(p string, off int64) error {
		_, err := f.WriteAt([]byte(p), off)
		return err
	}
	for about, change := range map[string]func() error{
		"nothing":              func() error { return nil },
		"a new length":         func() error { return f.Truncate(5) },
		"two runs":             func() error { return errors.Join(write("a", 20), write("b", 10)) },
		"more than is kept":    func() error { return write(strings.Repeat("x", maxKept+1), 0) },
		"much with a new size": func() error { return errors.Join(f.Truncate(5), write("a", 5)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, ok := vfs.BeginSync(f); ok {
			t.Errorf("%s: the sync began", about)
		}
		if err := f.SyncData(); err != nil { // it covers what was not begun
			t.Fatal(err)
		}
		journaled(t, s, f, "again ", 0)
	}
	if err := errors.Join(f.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// syncInRound syncs a file as a member of a round, where the file takes part in them.
func syncInRound(f vfs.File) error {
	m := &syncing{f: f, told: make(chan error, 1)}
	if !vfs.Join(f, m) {
		return f.SyncData()
	}
	return <-m.told
}

// syncing is a member that has written before.
type syncing struct {
	f    vfs.File
	told chan error
}

func (m *syncing) Write(*vfs.Gathering) vfs.Sync {
	s, ok := vfs.BeginSync(m.f)
	if !ok {
		go func() { m.told <- m.f.SyncData() }()
		return nil
	}
	return s
}

func (m *syncing) Synced(_ *vfs.Gathering, err error) { m.told <- err }

// sending is a member that sends while it writes, and again when it was synced.
type sending struct {
	*appending
	by *outlet
}

func (s *sending) Write(g *vfs.Gathering) vfs.Sync {
	g.Hold(s.by)
	s.by.kept++
	return s.appending.Write(g)
}

func (s *sending) Synced(g *vfs.Gathering, err error) {
	g.Hold(s.by)
	s.by.kept++
	s.appending.Synced(g, err)
}

// outlet says how much was sent together.
type outlet struct {
	held bool
	kept int
	sent chan int
}

func (o *outlet) Hold() { o.held = true }

func (o *outlet) Release() {
	o.sent <- o.kept
	o.held, o.kept = false, 0
}

// What members send while they write leaves before the sync, beside which others do theirs; what they
// send once they are told leaves together as well.
func TestMembersSendsAreGatheredInEachPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := vfstest.NewFaulty(vfs.NewCrashable())
		s := begun(t, d, small())
		first := member(t, s, root+"/first", "a")
		by := &outlet{sent: make(chan int, 10)}
		var others []*sending
		for i := range 5 {
			others = append(others, &sending{member(t, s, fmt.Sprintf("%s/%d", root, i), "b"), by})
		}
		others[4].next = "" // it sends, and writes nothing
		gates := make(chan chan struct{}, 1)
		d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind != vfs.OpSyncData || op.Name != halfPath(small().Dir, 0) {
				return vfstest.Fault{}
			}
			gate := make(chan struct{})
			gates <- gate
			return vfstest.Fault{Hang: gate}
		})
		join(t, first)
		synctest.Wait()
		for _, o := range others {
			if !vfs.Join(o.f, o) {
				t.Fatal("a live file does not take part in rounds")
			}
		}
		close(<-gates)
		synctest.Wait()
		if len(by.sent) != 1 || <-by.sent != 5 || by.held {
			t.Errorf("while the round is synced, %d more loads were sent, held %v", len(by.sent), by.held)
		}
		close(<-gates)
		synctest.Wait()
		if len(by.sent) != 1 || <-by.sent != 4 || by.held {
			t.Errorf("behind the sync %d more loads were sent, held %v", len(by.sent), by.held)
		}
		d.Decide(nil)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
