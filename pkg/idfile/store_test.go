package idfile

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

var start = time.Unix(1_700_000_000, 0)

func open(t *testing.T, fs vfs.FS, most int64) *Store {
	t.Helper()
	if err := fs.MkdirAll("p"); err != nil {
		t.Fatal(err)
	}
	names, err := fs.ReadDir("p")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(fs, "p", names, most, start)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// group returns a group of n ids of a batch.
func group(first, n int) Group {
	g := Group{First: seq.Offset(first), Epoch: 3, Stamp: int64(first) * 1000} //nolint:gosec // not negative
	for i := range n {
		g.IDs = append(g.IDs, ID{uint32(i), fmt.Appendf(nil, "id\xff-%d", first+i)}) //nolint:gosec // likewise
	}
	return g
}

func all(t *testing.T, s *Store) (groups []Group, err error) {
	t.Helper()
	err = s.Each(func(g *Group) bool {
		groups = append(groups, *g)
		return true
	})
	return groups, err
}

func TestFileIsGolden(t *testing.T) {
	s := open(t, vfs.NewMem(), 0)
	if err := s.Append([]Group{group(7, 2), {First: 12, Epoch: 4, Stamp: -1, IDs: []ID{{3, []byte{0}}}}}, start); err != nil {
		t.Fatal(err)
	}
	content, err := s.Read(1)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/ids.golden", content)
}

func TestStoredIDsAreReadInOrder(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem, 0)
	var want []Group
	for i := range 10 {
		g := group(100*i, i+1)
		if err := s.Append([]Group{g}, start); err != nil {
			t.Fatal(err)
		}
		if want = append(want, g); i == 5 {
			s = open(t, mem, 0) // another process
		}
	}
	if got, err := all(t, s); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if n := len(s.Files()); n != 2 {
		t.Errorf("%d files of two processes", n)
	}
}

func TestLargeBatchesAreSplit(t *testing.T) {
	s := open(t, vfs.NewMem(), 0)
	if err := s.Append([]Group{group(0, 200_000)}, start); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := s.Each(func(g *Group) bool {
		for _, id := range g.IDs {
			if string(id.Bytes) != fmt.Sprintf("id\xff-%d", n) {
				t.Fatalf("id %d is %q", n, id.Bytes)
			}
			n++
		}
		return true
	}); err != nil || n != 200_000 {
		t.Errorf("%d ids, %v", n, err)
	}
}

func TestOldestFilesAreDropped(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem, 12<<20)
	for i := range 20 {
		if err := s.Append([]Group{group(i*100_000, 100_000)}, start.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if bytes, dropped := s.Bytes(); bytes > 12<<20 || dropped == 0 {
		t.Errorf("%d bytes, %d files dropped", bytes, dropped)
	}
	if err := s.Expire(15*time.Second, start.Add(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	got, err := all(t, s)
	if err != nil || len(got) == 0 || got[len(got)-1].First != 1_900_000 {
		t.Fatalf("%d groups, %v", len(got), err)
	}
	if err := s.Expire(0, start.Add(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	if names, _ := mem.ReadDir("p"); len(names) > 0 {
		t.Errorf("files are left: %v", names)
	}
}

// A loss of power at any moment leaves what Append has stored; only the block that was being written may be torn.
func TestCrashKeepsWhatWasStored(t *testing.T) {
	rnd := testrand.New(t)
	for range 200 {
		mem := vfs.NewCrashable()
		if err := vfs.MkdirAllSynced(mem, "p"); err != nil {
			t.Fatal(err)
		}
		s := open(t, mem, 0)
		var want []Group
		for range rnd.IntN(5) {
			g := group(len(want)*100, 1+rnd.IntN(3))
			if err := s.Append([]Group{g}, start); err != nil {
				t.Fatal(err)
			}
			want = append(want, g)
		}
		crashed := mem.CrashClone(vfs.Crash{Rand: rnd, KeepPercent: 50, TornPercent: 50})
		after := open(t, crashed, 0)
		got, err := all(t, after)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
}

func TestDamagedBlockEndsItsFileOnly(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem, 0)
	for i := range 3 {
		if err := s.Append([]Group{group(i*10, 1)}, start); err != nil {
			t.Fatal(err)
		}
	}
	content, _ := s.Read(1)
	s = open(t, mem, 0)
	if err := s.Append([]Group{group(90, 1)}, start); err != nil {
		t.Fatal(err)
	}
	for at := range content {
		bad := append([]byte{}, content...)
		bad[at] ^= 0x40
		if err := vfs.WriteFileSynced(mem, s.path(1), bad); err != nil {
			t.Fatal(err)
		}
		got, err := all(t, s)
		if fate.Of(err) != fate.Corrupt || len(got) == 0 || len(got) > 3 || got[len(got)-1].First != 90 {
			t.Fatalf("byte %d: %+v, %v", at, got, err)
		}
	}
}

func TestReplicaTakesTheFilesOfItsLeader(t *testing.T) {
	leader, replica := open(t, vfs.NewMem(), 0), open(t, vfs.NewMem(), 0)
	var want []Group
	for i := range 3 {
		g := group(i*100_000, 60_000)
		g.IDs = g.IDs[:2000]
		if want = append(want, g); leader.Append([]Group{g}, start) != nil {
			t.Fatal("append failed")
		}
	}
	if err := replica.Append([]Group{group(5, 5)}, start); err != nil {
		t.Fatal(err)
	}
	if err := replica.Replace(true, nil, start); err != nil {
		t.Fatal(err)
	}
	for _, n := range leader.Files() {
		content, err := leader.Read(n)
		if err == nil {
			err = replica.Replace(false, content, start)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := all(t, replica); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d groups, %v", len(got), err)
	}
	if content, err := leader.Read(99); content != nil || err != nil {
		t.Errorf("a dropped file: %d bytes, %v", len(content), err)
	}
	if err := replica.Replace(false, make([]byte, longest+1), start); !errors.Is(err, errDamaged) {
		t.Errorf("a file that is too long: %v", err)
	}
}

func FuzzEachGroup(f *testing.F) {
	s, _ := Open(vfs.NewMem(), ".", nil, 0, start)
	_ = s.Append([]Group{group(7, 2)}, start)
	content, _ := s.Read(1)
	f.Add(content)
	f.Add([]byte(version))
	f.Fuzz(func(t *testing.T, content []byte) {
		_ = eachGroup(content, func(*Group) bool { return true })
		if len(content) > blockHead {
			_, _ = eachOf(content, func(g *Group) bool { return len(g.IDs) < 1000 })
		}
	})
}
