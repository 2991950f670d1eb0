package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Files of the process in the data directory, in addition to those of the node.
const (
	lockFile   = "LOCK"
	holderFile = "LOCK.holder" // describes the owner of the lock, for people
)

// ownPoll is how often a node checks that the data directory is still at its path.
const ownPoll = time.Second

// dirLock is the lock of a data directory.
type dirLock struct {
	io.Closer

	dir   string
	file  os.FileInfo // of the lock
	fresh bool        // no process has used the directory before
}

// lost returns an error if the directory was moved or removed, or its lock was. What the node
// writes from then on is not found by its next start, and another process may use the path.
func (l *dirLock) lost() error {
	now, err := os.Stat(filepath.Join(l.dir, lockFile))
	if err == nil && os.SameFile(now, l.file) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // another error does not mean that it is gone
	}
	return exitWith(exitDisk, fmt.Errorf("data directory %s was moved or removed while the node used it, or its file %s was: "+
		"the node stops, because its next start would not find what it writes; put the directory back before that", l.dir, lockFile))
}

// watch sends to gone once the directory is lost, and returns when ctx ends. gone has room for one error.
func (l *dirLock) watch(ctx context.Context, gone chan<- error) {
	beat.Every(ctx, ownPoll, func() {
		if err := l.lost(); err != nil {
			select {
			case gone <- err:
			default: // the process is stopping
			}
		}
	})
}

// lockDataDir creates the data directory if it is missing and locks it for this process. It
// reports the owner of the lock to a second process.
func lockDataDir(dir, nodeID string, now time.Time) (*dirLock, error) {
	if err := vfs.MkdirAllSynced(vfs.OS{}, dir); err != nil {
		if to, link := os.Readlink(dir); link == nil {
			err = fmt.Errorf("%s is a link to %s: %w; is its disk mounted?", dir, to, err)
		}
		return nil, exitWith(exitDisk, fmt.Errorf("data directory: %w", err))
	}
	_, before := os.Stat(filepath.Join(dir, lockFile))
	lock, err := vfs.OS{}.Lock(filepath.Join(dir, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, exitWith(exitTemporary, fmt.Errorf("data directory %s is in use by %s", dir, holder(dir)))
	}
	if err != nil {
		return nil, exitWith(exitDisk, fmt.Errorf("data directory: %w", err))
	}
	who := fmt.Sprintf("process %d, node %s, since %s\n", os.Getpid(), nodeID, now.UTC().Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(dir, holderFile), []byte(who), 0o640); err != nil { //nolint:gosec // the group may read it
		lock.Close()
		return nil, exitWith(exitDisk, fmt.Errorf("data directory: %w", err))
	}
	file, err := os.Stat(filepath.Join(dir, lockFile))
	if err != nil {
		lock.Close()
		return nil, exitWith(exitDisk, fmt.Errorf("data directory: %w", err))
	}
	return &dirLock{lock, dir, file, errors.Is(before, fs.ErrNotExist)}, nil
}

// asOwner calls f with the rights of the user whose process uses a data directory: files that root
// creates there could not be opened by that user's node afterwards. A process that is not root keeps
// its rights. Nothing else must run meanwhile: the rights are those of the process.
func asOwner(dir string, f func() error) (err error) {
	uid, gid := ownerOf(dir)
	if os.Geteuid() != 0 || uid <= 0 {
		return f()
	}
	if err := errors.Join(syscall.Setegid(gid), syscall.Seteuid(uid)); err != nil {
		return exitWith(exitTemporary, fmt.Errorf("cannot act as user %d, whose files are in %s: %w; run this command as that user", uid, dir, err))
	}
	defer func() {
		err = errors.Join(err, syscall.Seteuid(0), syscall.Setegid(0))
	}()
	return f()
}

// ownerOf returns the user and the group of the process that created the lock of a data directory,
// and -1 if that is unknown.
func ownerOf(dir string) (uid, gid int) {
	info, err := os.Stat(filepath.Join(dir, lockFile))
	if err != nil {
		return -1, -1
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(stat.Uid), int(stat.Gid)
}

func holder(dir string) string {
	who, err := os.ReadFile(filepath.Join(dir, holderFile))
	if text := strings.TrimSpace(string(who)); err == nil && text != "" {
		return text
	}
	return "another process"
}
