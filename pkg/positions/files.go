package positions

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// files stores the snapshots of one partition, each complete, in the older of two slot files,
// so that the previous one is intact whatever happens to the write. One goroutine at a time may
// call its methods. It keeps no file open.
type files struct {
	fs      vfs.FS
	dir     string
	number  uint64  // of the newest intact snapshot; 0: none yet
	made    [2]bool // which slots exist
	durable bool    // the newest snapshot is known to be on disk, not just readable
	size    int64   // of the newest snapshot, in bytes
	damaged error   // torn or damaged when it was opened: the newest snapshot may be the last but one, or lack changes
	corrupt bool    // the damaged part had been on disk: it is no torn write
	buf     []byte
	journal journal // changes after the newest snapshot; its methods may be called concurrently with these
}

// The names of the files. The snapshot with number n is in slot n%2.
const (
	slot0    = "positions.0"
	slot1    = "positions.1"
	newSlot  = "positions.new" // a slot that is being created
	markFile = "positioned"    // empty, made after a slot; without slots it says that they are missing

	// asideSuffix is the suffix, before a number, of a damaged file's name after it was
	// replaced.
	asideSuffix = ".damaged"
)

// maxImageBytes is the maximum encoded size of a snapshot. A larger file is not read, a
// larger snapshot is not written.
const maxImageBytes = 1 << 30

// errNewer is wrapped by the error of openFiles when a newer
// program wrote the positions. It is marked fate.Refused: they are intact.
var errNewer = fate.Refuse("channel positions were written by a newer version of brokerd")

// openFiles opens the positions in a directory and returns the newest intact snapshot, or a zero
// one if none was ever saved, with the journaled changes since. If none is intact any longer, the error
// is marked fate.Corrupt, and positions to which a new one can be saved are returned nevertheless.
func openFiles(fsys vfs.FS, dir string) (*files, Snapshot, error) {
	p := &files{fs: fsys, dir: dir, journal: journal{fs: fsys, dir: dir}}
	var newest Snapshot
	var faults [2]error
	for slot := range p.made {
		number, snap, size, err := p.read(slot)
		if err == nil && number%2 != uint64(slot) {
			err = fmt.Errorf("%w: snapshot number %d in the wrong slot", errDamaged, number)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil:
			if number > p.number {
				p.number, p.size, newest = number, size, snap
			}
		case errors.Is(err, errDamaged), errors.Is(err, syscall.EIO), errors.Is(err, syscall.EISDIR):
			faults[slot] = fmt.Errorf("%s: %w", p.path(slot), err)
		default:
			return nil, Snapshot{}, fmt.Errorf("read %s: %w", p.path(slot), err)
		}
		p.made[slot] = true
	}
	if other := (p.number + 1) % 2; p.number > 1 && !p.made[other] {
		faults[other] = fmt.Errorf("%s: %w", p.path(int(other)), fs.ErrNotExist)
	}
	if p.made == [2]bool{} {
		switch _, err := fsys.Stat(filepath.Join(dir, markFile)); {
		case err == nil:
			faults[0] = fmt.Errorf("%s and %s: %w", p.path(0), p.path(1), fs.ErrNotExist)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, Snapshot{}, err
		}
	}
	p.damaged = errors.Join(faults[0], faults[1])
	if p.number == 0 && p.damaged != nil {
		return p, Snapshot{}, fate.Mark(fmt.Errorf("no intact channel positions: %w", p.damaged), fate.Corrupt)
	}
	m := mirror{snap: newest}
	found, err := p.journal.replay(p.number, &m)
	if err != nil {
		return nil, Snapshot{}, err
	}
	// Updates follow a snapshot only once it is stored.
	p.corrupt = found.damage != nil || found.beyond
	p.damaged = errors.Join(p.damaged, found.damage)
	return p, *m.snapshot(), nil
}

// setAside renames every file of the positions, so that a new series of numbers can begin and an
// operator can examine the old files. The journals are renamed first: while a damaged slot exists,
// the positions count as damaged.
func (p *files) setAside() error {
	if err := p.rename(journalName(0), journalName(1), slot0, slot1); err != nil {
		return err
	}
	p.made, p.damaged = [2]bool{}, nil
	return nil
}

// replaceAll makes the next snapshots replace damaged ones by files of a new series of numbers.
// Until the first is stored, the positions count as damaged.
func (p *files) replaceAll() error {
	p.made = [2]bool{}
	return p.rename(journalName(0), journalName(1))
}

// rename gives existing files the names of damaged ones, in this order.
func (p *files) rename(names ...string) error {
	renamed := false
	for _, name := range names {
		from := filepath.Join(p.dir, name)
		if _, err := p.fs.Stat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		to, err := p.freeName(from + asideSuffix)
		if err != nil {
			return err
		}
		if err := p.fs.Rename(from, to); err != nil {
			return err
		}
		renamed = true
	}
	if !renamed {
		return nil
	}
	return p.fs.SyncDir(p.dir)
}

// freeName returns the first unused name of a prefix and a number.
func (p *files) freeName(prefix string) (string, error) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.%d", prefix, n)
		_, err := p.fs.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, nil
		case err != nil:
			return "", err
		}
	}
}

// Begin announces the next snapshot: earlier changes are included in it, later ones follow it.
func (p *files) Begin() error { return p.journal.follow(p.number + 1) }

// Append records an encoded change of an ordered channel, in case the process is killed before the
// next snapshot is stored. It does not wait for a sync. One goroutine may call it at any time.
func (p *files) Append(change []byte) error { return p.journal.append(change) }

// Update stores an encoded update of the stored state; it is on disk when Update returns nil.
// After an error, a snapshot must be saved before the next update. Call it from the saving
// goroutine.
func (p *files) Update(data []byte) error { return p.journal.update(data) }

// takesUpdates reports whether Update may be called.
func (p *files) takesUpdates() bool { return p.number > 0 && p.journal.takesUpdates(p.number) }

// grown reports whether the changes since the newest snapshot are larger than the snapshot.
func (p *files) grown() bool { return p.journal.size() > max(p.size, minFold) }

// minFold is the size of changes, in bytes, up to which a new snapshot is not worthwhile.
const minFold = 256 << 10

// Fold stores a snapshot that includes all stored changes. It returns the file image, which the
// caller owns.
func (p *files) Fold() ([]byte, error) {
	if err := p.Begin(); err != nil {
		return nil, err
	}
	number, snap, _, err := p.read(int(p.number % 2))
	if err == nil && number != p.number {
		err = damaged("snapshot number changed on disk")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.path(int(p.number%2)), err)
	}
	m := mirror{snap: snap}
	found, err := (&journal{fs: p.fs, dir: p.dir}).replayOne(number, &m)
	if err = errors.Join(err, found.damage); err != nil {
		return nil, err
	}
	data, err := appendSnapshot(nil, number+1, *m.snapshot())
	if err != nil {
		return nil, err
	}
	return data, p.saveImage(data)
}

// Close closes open files. Everything is stored already.
func (p *files) Close() error { return p.journal.close() }

// Save stores a snapshot; when it returns nil, the snapshot is on disk. After an error the previous
// snapshot is intact, and a restart finds it unless the new one was written after all. Save may be
// called again. The error is marked fate.Uncertain, or fate.Refused if nothing was written.
func (p *files) Save(s Snapshot) error {
	data, err := p.encode(s)
	if err != nil {
		return err
	}
	return p.saveImage(data)
}

// encode returns the next snapshot's file image, which is valid until the next call.
func (p *files) encode(s Snapshot) ([]byte, error) {
	data, err := appendSnapshot(p.buf[:0], p.number+1, s)
	if err == nil {
		p.keep(data)
	}
	return data, err
}

// saveCopy is Save for an encoded snapshot with any number.
func (p *files) saveCopy(image []byte) error {
	data := append(p.buf[:0], image...)
	p.keep(data)
	renumber(data, p.number+1)
	return p.saveImage(data)
}

// keep keeps a buffer for the next snapshot, unless it is large.
func (p *files) keep(buf []byte) {
	if cap(buf) <= maxKeptBuffer {
		p.buf = buf
	}
}

// saveImage stores an encoded snapshot whose number is the next one: see Save.
func (p *files) saveImage(data []byte) error {
	number := p.number + 1
	if err := p.ensureDurable(); err != nil {
		return fmt.Errorf("sync %s: %w", p.path(int(p.number%2)), err)
	}
	slot, err := int(number%2), error(nil)
	if p.made[slot] {
		err = p.overwrite(slot, data)
	} else {
		err = p.create(slot, data)
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", p.path(slot), err)
	}
	p.number, p.durable, p.size = number, true, int64(len(data))
	return nil
}

// ensureDurable makes sure, once, that the snapshot found at opening is on disk. A killed process
// may have left it only in memory, and the slot with the previous one is about to be overwritten.
func (p *files) ensureDurable() error {
	if p.durable || p.number == 0 {
		return nil
	}
	f, err := p.fs.OpenReadWrite(p.path(int(p.number % 2)))
	if err != nil {
		return err
	}
	if err := errors.Join(f.SyncData(), f.Close()); err != nil {
		return err
	}
	if err := p.fs.SyncDir(p.dir); err != nil {
		return err
	}
	p.durable = true
	return nil
}

// maxKeptBuffer is the largest buffer kept between two Saves: each of thousands of partitions has one.
const maxKeptBuffer = 4 << 10

func (p *files) path(slot int) string {
	return filepath.Join(p.dir, [...]string{slot0, slot1}[slot])
}

// create creates a slot in one step, so an existing slot was complete once: if it is unreadable
// later, it is damaged or was being overwritten. The mark need not be durable at once.
func (p *files) create(slot int, data []byte) error {
	unfinished := filepath.Join(p.dir, newSlot)
	f, err := p.fs.Create(unfinished)
	if err != nil {
		return err
	}
	if err := writeAndClose(f, data); err != nil {
		return errors.Join(err, p.fs.Remove(unfinished)) // it may occupy the last free space
	}
	if err := p.fs.Rename(unfinished, p.path(slot)); err != nil {
		return err
	}
	if err := p.fs.SyncDir(p.dir); err != nil {
		return err
	}
	mark, err := p.fs.Create(filepath.Join(p.dir, markFile))
	if err == nil {
		err = mark.Close()
	}
	p.made[slot] = err == nil
	return err
}

// overwrite writes a slot in place: the directory does not change, and usually not the file's
// length, so one fdatasync suffices.
func (p *files) overwrite(slot int, data []byte) error {
	f, err := p.fs.OpenReadWrite(p.path(slot))
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil && size > 2*int64(len(data))+maxKeptBuffer {
		err = f.Truncate(int64(len(data)))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return writeAndClose(f, data)
}

func writeAndClose(f vfs.File, data []byte) error {
	_, err := f.WriteAt(data, 0)
	if err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}

// read reads a slot. An error that wraps errDamaged is about its content, any other about
// the disk.
func (p *files) read(slot int) (number uint64, s Snapshot, size int64, err error) {
	f, err := p.fs.Open(p.path(slot))
	if err != nil {
		return 0, Snapshot{}, 0, err
	}
	data, err := readSlot(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, Snapshot{}, 0, err
	}
	number, s, err = decodeSnapshot(data)
	if err != nil {
		return 0, Snapshot{}, 0, err
	}
	return number, s, int64(imageSize(data)), nil
}

func readSlot(f vfs.File) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > 4*maxImageBytes {
		return nil, fmt.Errorf("%w: %d bytes", errDamaged, size)
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data[:n], nil
}
