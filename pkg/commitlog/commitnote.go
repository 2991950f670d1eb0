package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// commitNote stores the committed end of a log on disk: see package commitnote. While the node's
// redo journal also holds the batches up to it, it is not written: see vfs.WriteNote.
type commitNote struct {
	mu    sync.Mutex // guards what follows
	file  vfs.File   // nil if not open
	slot  int64      // to be written next
	noted seq.Offset
	over  bool // the log is closed
}

// writeLocked writes a committed end. Without disk space the log continues: a later write replaces
// it. Any other error fails the log.
func (n *commitNote) writeLocked(l *Log, committed seq.Offset) {
	if n.over || committed <= n.noted {
		return
	}
	if n.file == nil {
		f, err := openCommitNote(l.fs, l.dir)
		if err != nil {
			failNote(l, err)
			return
		}
		n.file = f
	}
	p, off := commitnote.Encode(committed, l.endPos.Load(), l.EpochEnding(committed)), n.slot*commitnote.SlotBytes
	var err error
	if o := l.synced.Load(); o != nil && committed <= l.DurableEnd() {
		err = vfs.WriteNote(n.file, o.file, p, off)
	} else {
		_, err = n.file.WriteAt(p, off)
	}
	if err != nil {
		failNote(l, err)
		return
	}
	n.noted = committed
	n.slot = (n.slot + 1) % commitnote.Slots
}

// keep writes the committed end that Open has found, if the stored one is lower.
func (n *commitNote) keep(l *Log) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.madeDir {
		n.writeLocked(l, l.CommittedEnd())
	}
}

func failNote(l *Log, err error) {
	if !vfs.LacksRoom(err) {
		_ = l.fail(fmt.Errorf("write committed end: %w", err))
	}
}

func openCommitNote(fsys vfs.FS, dir string) (vfs.File, error) {
	path := filepath.Join(dir, commitnote.Name)
	f, err := fsys.OpenReadWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fsys.Create(path)
	}
	return f, err
}

// close closes the note: nothing more is written.
func (n *commitNote) close() {
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	n.release()
}

// release closes the file until the next write.
func (n *commitNote) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file != nil {
		_ = n.file.Close()
		n.file = nil
	}
}
