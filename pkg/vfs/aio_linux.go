package vfs

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
