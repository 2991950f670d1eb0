package main

import (
	"log/slog"
	"math"
	"runtime"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// wantedFiles is the number of open files that a node needs: some for each busy partition, and one
// for each connection.
const wantedFiles = 1 << 20

// raiseOpenFiles raises the limit of open files if the process may do so: as root, if no service
// manager has set it.
func raiseOpenFiles() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil || l.Cur >= wantedFiles {
		return
	}
	l.Cur, l.Max = wantedFiles, max(l.Max, wantedFiles)
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // on failure the limit stays unchanged
}

// topicFiles returns the file system for topics, for a process with a limit of open files.
func topicFiles(limit uint64, log *slog.Logger) vfs.OS {
	var complaints complaint.Book
	return vfs.OS{
		Syncs: vfs.NewSyncs(runtime.GOMAXPROCS(0)),
		Files: vfs.NewFiles(int(min(limit, math.MaxInt32)), vfs.FilesEvents{
			GaveUp: func(name string) {
				complaints.Warn(log, time.Now(), "more files than descriptors: files are closed and opened again in turn, which slows publishing; raise the limit of open files (LimitNOFILE)",
					"path", name, "limit", limit)
			},
			Refused: func(name string) {
				complaints.Warn(log, time.Now(), "cannot open another file: publishes that need one are refused; raise the limit of open files (LimitNOFILE)",
					"path", name, "limit", limit)
			},
		}),
	}
}
