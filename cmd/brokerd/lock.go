package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Files of the process in the data directory, in addition to those of the node.
const (
	lockFile   = "LOCK"
	holderFile = "LOCK.holder" // describes the owner of the lock, for people
)

// lockDataDir creates the data directory if it is missing and locks it for this process. It
// reports the owner of the lock to a second process.
func lockDataDir(dir, nodeID string, now time.Time) (io.Closer, error) {
	if err := vfs.MkdirAllSynced(vfs.OS{}, dir); err != nil {
		return nil, exitWith(exitDisk, fmt.Errorf("data directory: %w", err))
	}
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
	return lock, nil
}

func holder(dir string) string {
	who, err := os.ReadFile(filepath.Join(dir, holderFile))
	if text := strings.TrimSpace(string(who)); err == nil && text != "" {
		return text
	}
	return "another process"
}
