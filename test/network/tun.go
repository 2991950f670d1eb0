package network

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// openTun creates a network device in a namespace, "" for that of this process, and returns its other end.
func openTun(namespace string) (*os.File, error) {
	if namespace != "" {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		back, err := enter("/run/netns/" + namespace)
		if err != nil {
			return nil, err
		}
		defer back()
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(device)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), device), nil
}

// enter moves this thread to the network namespace at a path, until back is called.
func enter(path string) (back func(), err error) {
	own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	there, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Setns(there, unix.CLONE_NEWNET)
		_ = unix.Close(there)
	}
	if err != nil {
		_ = unix.Close(own)
		return nil, err
	}
	return func() {
		if err := unix.Setns(own, unix.CLONE_NEWNET); err != nil {
			panic("the thread cannot return to its namespace: " + err.Error())
		}
		_ = unix.Close(own)
	}, nil
}
