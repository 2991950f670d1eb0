package hook

import (
	"errors"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// script answers operations by kind, and lists them.
type script struct {
	answers map[vfs.OpKind]error
	seen    []string
	open    int // operations that have begun and not ended
}

func (s *script) Begin(op vfs.Op, _ vfs.File) (int, error) {
	s.seen = append(s.seen, op.String())
	if err := s.answers[op.Kind]; err != nil {
		return 0, err
	}
	s.open++
	return 7, nil
}

func (s *script) End(token int) { s.open -= token / 7 }

func TestHookDecidesEachOperation(t *testing.T) {
	refused := errors.New("refused")
	s := &script{answers: map[vfs.OpKind]error{vfs.OpMkdir: refused, vfs.OpSyncDir: ErrSkip, vfs.OpWrite: &PartialWrite{Bytes: 2, Err: refused}, vfs.OpSyncVolume: refused}}
	disk := vfs.NewMem()
	fsys := New(disk, s, false)
	if err := fsys.MkdirAll("d"); !errors.Is(err, refused) {
		t.Errorf("mkdir: %v", err)
	}
	if names, err := fsys.ReadDir("."); err != nil || len(names) != 0 {
		t.Errorf("the refused directory is there: %v, %v", names, err)
	}
	if err := fsys.SyncDir("missing"); err != nil {
		t.Errorf("a skipped sync: %v", err)
	}
	f, err := fsys.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.WriteAt([]byte("abc"), 0); n != 2 || !errors.Is(err, refused) {
		t.Errorf("partial write: %d, %v", n, err)
	}
	if got, err := vfs.ReadFile(fsys, "f", 10); string(got) != "ab" || err != nil {
		t.Errorf("file has %q, %v", got, err)
	}
	v, err := vfs.OpenVolume(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(v.Sync(), v.Close()); !errors.Is(err, refused) {
		t.Errorf("volume: %v", err)
	}
	want := []string{"mkdir d", "syncdir missing", "create f", "write f [0,3)", "syncvolume ."}
	if !slices.Equal(s.seen, want) || s.open != 0 {
		t.Errorf("saw %q, want %q; %d have not ended", s.seen, want, s.open)
	}
}

func TestHookSeesReadsOnRequest(t *testing.T) {
	s := &script{}
	fsys := New(vfs.NewMem(), s, true)
	f, err := fsys.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.ReadAt(make([]byte, 1), 0)
	_, _ = fsys.Stat("f")
	_, _ = fsys.ReadDir(".")
	_, _ = fsys.Usage("f")
	if want := []string{"create f", "read f [0,1)", "stat f", "readdir .", "usage f"}; !slices.Equal(s.seen, want) || s.open != 0 {
		t.Errorf("saw %q, want %q; %d have not ended", s.seen, want, s.open)
	}
}
