package vfs

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRequests limits the syncs that are passed to the kernel at the same time.
const maxRequests = 64

// Syncs limits how many of the runtime's places for goroutines (GOMAXPROCS) are taken by syncs. A
// goroutine in a system call keeps its place until the runtime's monitor takes it away, up to 10 ms
// later. While all places are in syncs, nothing else runs, although the processors are idle.
// Therefore a sync that would take one place too many is passed to the kernel as a request, and its
// goroutine waits for the completion as others wait for the network. SyncAside always does so. The
// first syncs block in a system call: for a sync on which everything waits this is faster, as it
// saves the request and the wake-up.
// hand-over and the wake-up take.
// If the kernel takes no such requests, or has enough of them, syncs block as they do without a
// Syncs. The methods are safe for concurrent use. A nil Syncs passes no sync to the kernel.
type Syncs struct {
	most     int32        // syncs that may block at the same time
	blocking atomic.Int32 // how many block now
	shared   rounds       // of directories, by path

	mu      sync.Mutex // guards what follows
	idle    []*syncRequest
	made    int
	refused bool // the kernel accepts no requests
}

// NewSyncs returns a Syncs for a runtime with places places. Syncs may take half of them.
func NewSyncs(places int) *Syncs {
	return &Syncs{most: int32(min(places/2, 1<<10))} //nolint:gosec // bounded
}

// syncKind is what a sync makes durable.
type syncKind struct {
	opcode uint16                 // of the asynchronous request
	block  func(f *os.File) error // the same by a system call
}

var (
	dataSync = syncKind{aioDataSync, fdatasync}
	// nameSync is for directories: a new name in a directory may not count as its data.
	nameSync = syncKind{aioSync, (*os.File).Sync}
)

func fdatasync(f *os.File) error {
	return ignoringEINTR(func() error { return unix.Fdatasync(int(f.Fd())) })
}

// data makes a file's data durable.
func (s *Syncs) data(f *os.File) error { return s.sync(f, dataSync) }

// names makes the names in a directory durable with sync. Callers at the same time share one sync:
// if many topics are created together, all are created in one directory.
func (s *Syncs) names(dir string, sync func() error) error {
	if s == nil {
		return sync()
	}
	return s.shared.share(dir, sync)
}

// sync blocks, or uses a request if too many syncs block.
func (s *Syncs) sync(f *os.File, kind syncKind) error {
	if s == nil {
		return kind.block(f)
	}
	if s.blocking.Add(1) <= s.most {
		defer s.blocking.Add(-1)
		return kind.block(f)
	}
	s.blocking.Add(-1)
	return s.aside(f, kind)
}

// aside syncs with a request, or blocks if there is none.
func (s *Syncs) aside(f *os.File, kind syncKind) error {
	if s == nil {
		return kind.block(f)
	}
	r := s.get()
	if r == nil {
		return kind.block(f)
	}
	taken, err := r.submit(f, kind.opcode)
	if !taken {
		s.put(r, err == nil)
		if err != nil {
			return err
		}
		return kind.block(f)
	}
	if err := r.await(); err != nil {
		return err // r cannot be reused: the kernel may still complete it
	}
	err = r.outcome()
	s.put(r, false)
	return err
}

// get returns an unused request, or nil.
func (s *Syncs) get() *syncRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		r := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return r
	}
	if s.refused || s.made == maxRequests {
		return nil
	}
	r, err := newSyncRequest()
	if err != nil {
		s.refused = true
		return nil
	}
	s.made++
	return r
}

// put returns a request. refused: the kernel did not accept it, and accepts no others.
func (s *Syncs) put(r *syncRequest, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, r)
	if refused {
		s.refused, s.idle = true, nil
	}
}

// The kernel's interface for asynchronous I/O, from linux/aio_abi.h. See io_submit(2).
const (
	aioSync        = 2 // IOCB_CMD_FSYNC
	aioDataSync    = 3 // IOCB_CMD_FDSYNC
	aioSignalEvent = 1 // IOCB_FLAG_RESFD
)

type aioControl struct {
	_      [16]byte
	opcode uint16
	_      int16
	file   uint32
	_      [4]uint64
	flags  uint32
	event  uint32
}

type aioEvent struct {
	_      [2]uint64
	result int64 // a negative error number
	_      int64
}

// syncRequest is one reusable request to the kernel.
type syncRequest struct {
	context uintptr  // of the kernel
	event   *os.File // an eventfd, which the kernel signals at completion
	control aioControl
	done    aioEvent
	count   [8]byte // what the event is read into
}

func newSyncRequest() (*syncRequest, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	r := &syncRequest{
		event:   os.NewFile(uintptr(fd), "eventfd"),                   //nolint:gosec // a descriptor is not negative
		control: aioControl{flags: aioSignalEvent, event: uint32(fd)}, //nolint:gosec // likewise
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&r.context)), 0); errno != 0 {
		_ = r.event.Close()
		return nil, errno
	}
	return r, nil
}

// submit passes a sync of a file to the kernel. It returns false if the kernel does not accept it.
// An error means that the file is closed.
func (r *syncRequest) submit(f *os.File, opcode uint16) (taken bool, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	err = conn.Control(func(fd uintptr) {
		r.control.opcode = opcode
		r.control.file = uint32(fd) //nolint:gosec // a descriptor
		list := &r.control
		n, _, errno := syscall.RawSyscall(unix.SYS_IO_SUBMIT, r.context, 1, uintptr(unsafe.Pointer(&list)))
		taken = errno == 0 && n == 1
	})
	if err != nil {
		return false, os.ErrClosed
	}
	return taken, nil
}

// await returns when the kernel has completed the request. After an error that is unknown.
func (r *syncRequest) await() error {
	if _, err := r.event.Read(r.count[:]); err != nil {
		return err
	}
	return ignoringEINTR(func() error {
		n, _, errno := syscall.RawSyscall6(unix.SYS_IO_GETEVENTS, r.context, 1, 1, uintptr(unsafe.Pointer(&r.done)), 0, 0)
		if errno != 0 {
			return errno
		}
		if n != 1 {
			return syscall.EIO
		}
		return nil
	})
}

// outcome returns the result of the request.
func (r *syncRequest) outcome() error {
	if r.done.result < 0 {
		return syscall.Errno(-r.done.result)
	}
	return nil
}
