package hugepage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// madvCollapse is MADV_COLLAPSE of Linux 6.1.
const madvCollapse = 25

// maxFailures is after how many calls in a row without success the kernel counts as unable.
const maxFailures = 8

// Heap is the memory of Go's heap. It is not safe for concurrent use.
type Heap struct {
	object   *byte // is in it
	size     uintptr
	page     uintptr
	done     map[uintptr]bool // parts that were moved, by address
	failures int
}

// NewHeap returns the heap in which an object is. It returns nil if the system has no huge pages.
func NewHeap(object *byte) *Heap {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if err != nil {
		return nil
	}
	size, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil || size == 0 {
		return nil
	}
	return &Heap{object: object, size: uintptr(size), page: uintptr(os.Getpagesize()), done: map[uintptr]bool{}}
}

// Move moves the parts of the heap whose pages are all resident into huge pages, and returns
// how many parts it had not moved before. It costs little for those that are there already. After an
// error other parts may have moved. nil has nothing to move.
func (h *Heap) Move() (moved int, err error) {
	if h == nil || h.failures >= maxFailures {
		return 0, nil
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	spans, err := spansAround(f, uintptr(unsafe.Pointer(h.object)))
	if err != nil {
		return 0, err
	}
	for _, s := range spans {
		n, err := h.moveIn(s)
		moved += n
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// Forget forgets what was moved, because memory was returned to the system.
func (h *Heap) Forget() {
	if h != nil {
		clear(h.done)
	}
}

// moveIn moves parts of one span of addresses.
func (h *Heap) moveIn(s span) (moved int, err error) {
	from, to := (s.from+h.size-1)&^(h.size-1), s.to&^(h.size-1)
	if from >= to {
		return 0, nil
	}
	resident := make([]byte, (to-from)/h.page)
	if err := call(unix.SYS_MINCORE, from, to-from, uintptr(unsafe.Pointer(&resident[0]))); err != nil {
		return 0, fmt.Errorf("mincore: %w", err)
	}
	for _, part := range full(resident, int(h.size/h.page)) {
		at, end := from+uintptr(part.from)*h.size, from+uintptr(part.to)*h.size
		if err := call(unix.SYS_MADVISE, at, end-at, madvCollapse); err != nil {
			if errors.Is(err, unix.EINVAL) { // the kernel is older than 6.1, or may not
				h.failures++
			}
			continue // else the memory is in use at the moment, or no huge page is free
		}
		h.failures = 0
		for ; at < end; at += h.size {
			if !h.done[at] {
				h.done[at] = true
				moved++
			}
		}
	}
	return moved, nil
}

// call makes a system call that returns nothing.
func call(number, at, n, more uintptr) error {
	if _, _, errno := unix.Syscall(number, at, n, more); errno != 0 {
		return errno
	}
	return nil
}

// span is a range of addresses.
type span struct{ from, to uintptr }

// spansAround reads a process's maps, and returns the writable anonymous mappings among those that
// adjoin each other around an address: Go reserves its heap in one row.
func spansAround(maps io.Reader, at uintptr) ([]span, error) {
	var row []span
	var begin, end uintptr
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var s span
		var mode, offset, device string
		var inode uint64
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %d", &s.from, &s.to, &mode, &offset, &device, &inode); err != nil {
			return nil, fmt.Errorf("line %q of the maps: %w", lines.Text(), err)
		}
		if s.from != end || inode != 0 {
			if begin <= at && at < end {
				break
			}
			row, begin = nil, s.from
		}
		end = s.to
		if inode == 0 && strings.HasPrefix(mode, "rw-p") {
			row = append(row, s)
		}
	}
	if at < begin || at >= end {
		return nil, lines.Err()
	}
	return row, lines.Err()
}
