package main

import (
	"errors"
	"io/fs"
	"net"
	"syscall"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/node"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// Exit codes, after sysexits.h. A supervisor should not restart after exitUsage and exitConfig,
// because a restart cannot help.
const (
	exitOK        = 0
	exitFailed    = 1  // a check found errors
	exitUsage     = 64 // invalid command line
	exitBug       = 70 // bug in brokerd
	exitDisk      = 74 // the data directory is unusable or corrupt
	exitTemporary = 75 // temporary conflict: another process, a port in use
	exitConfig    = 78 // invalid configuration
)

// exitError is an error with its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exitWith(code int, err error) error { return &exitError{code, err} }

// silent is an outcome that was already printed.
type silent struct{ code int }

func (s silent) Error() string { return "failed" }

func isSilent(err error) bool {
	var s silent
	return errors.As(err, &s)
}

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var known *exitError
	var quiet silent
	var problems config.Problems
	var path *fs.PathError
	var network *net.OpError
	var address *node.AddressError
	var disk *node.DiskError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &known):
		return known.code
	case errors.As(err, &disk):
		return exitDisk
	case errors.As(err, &address):
		return exitConfig
	case errors.As(err, &quiet):
		return quiet.code
	case errors.As(err, &problems) && problems.Usage():
		return exitUsage
	case errors.As(err, &problems):
		return exitConfig
	case errors.Is(err, syscall.EADDRINUSE):
		return exitTemporary
	case errors.As(err, &network), errors.Is(err, raftstore.ErrOtherNode), node.NoPlace(err):
		return exitConfig
	case errors.As(err, &path), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, failure.MetadataDiskFull), errors.Is(err, syscall.EIO), fate.Of(err) == fate.Corrupt:
		return exitDisk
	}
	return exitBug
}
