package hugepage

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestSpansAround(t *testing.T) {
	const maps = `00400000-00b71000 r-xp 00000000 fe:00 42   /usr/bin/brokerd
00b71000-00c00000 rw-p 00000000 00:00 0
c000000000-c000800000 rw-p 00000000 00:00 0                              [anon: Go: heap]
c000800000-c001000000 ---p 00000000 00:00 0
c001000000-c004000000 rw-p 00000000 00:00 0
c008000000-c00c000000 rw-p 00000000 00:00 0
7f0000000000-7f0000100000 rw-p 00000000 00:00 0
7f0000100000-7f0000200000 rw-p 00000000 fe:00 7    /tmp/mapped
`
	for at, want := range map[uintptr]string{
		0xc000000000:   "[{c000000000 c000800000} {c001000000 c004000000}]",
		0xc003ffffff:   "[{c000000000 c000800000} {c001000000 c004000000}]",
		0xc008000000:   "[{c008000000 c00c000000}]",
		0x7f0000000000: "[{7f0000000000 7f0000100000}]",
		0xc004000000:   "[]",
		0xe000000000:   "[]",
	} {
		got, err := spansAround(strings.NewReader(maps), at)
		if s := fmt.Sprintf("%x", got); err != nil || s != want {
			t.Errorf("around %x: %s, %v, want %s", at, s, err, want)
		}
	}
	if _, err := spansAround(strings.NewReader("no map\n"), 1); err == nil {
		t.Error("malformed maps were accepted")
	}
}

func TestHeapMoves(t *testing.T) {
	used := make([]byte, 32<<20)
	for i := range used {
		used[i] = byte(i * 7)
	}
	h := newHeap(t, used)
	moved, err := h.Move()
	if err != nil {
		t.Fatal(err)
	}
	// The first and the last part are shared with other objects, and a part that is in use elsewhere
	// at the moment does not move.
	if least := len(used) / int(h.size) / 2; moved < least {
		t.Errorf("%d parts moved, want at least %d", moved, least)
	}
	for i, b := range used {
		if b != byte(i*7) {
			t.Fatalf("byte %d is %d after the move", i, b)
		}
	}
}

func TestUntouchedMemoryStaysUntouched(t *testing.T) {
	b, err := unix.Mmap(-1, 0, 32<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	h := newHeap(t, b)
	for i := 0; i < len(b)/2; i += int(h.page) {
		b[i] = 1
	}
	for i := len(b) / 2; i < len(b); i += int(h.size) {
		b[i] = 1 // one page of each part
	}
	from := uintptr(unsafe.Pointer(&b[0]))
	if _, err := h.moveIn(span{from, from + uintptr(len(b))}); err != nil {
		t.Fatal(err)
	}
	resident := make([]byte, len(b)/int(h.page))
	if err := call(unix.SYS_MINCORE, from, uintptr(len(b)), uintptr(unsafe.Pointer(&resident[0]))); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range resident[len(resident)/2:] {
		n += int(r & 1)
	}
	if n > len(resident)/16 {
		t.Errorf("%d pages are resident of %d that are hardly used", n, len(resident)/2)
	}
}

// newHeap returns the heap around an object, if the system moves memory into huge pages.
func newHeap(t *testing.T, b []byte) *Heap {
	t.Helper()
	h := NewHeap(&b[0])
	if h == nil {
		t.Skip("this system has no huge pages")
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil || major < 6 || major == 6 && minor < 1 {
		t.Skip("this kernel does not move memory into huge pages on request")
	}
	return h
}
