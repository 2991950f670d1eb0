package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
)

// store returns a repository in a new directory, and its path.
func store(t *testing.T) (*Repository, string) {
	t.Helper()
	path := t.TempDir()
	return In(Dir(path)), path
}

// written writes a backup with one chunk of messages for each of the bodies.
func written(t *testing.T, r *Repository, id, cluster string, bodies ...string) *Manifest {
	t.Helper()
	work := begun(t, r, id)
	m := &Manifest{Format: Format, ID: id, Created: created, Cluster: cluster}
	for i, body := range bodies {
		w := work.Messages(nil)
		check(t, w.Add(t.Context(), &Message{Body: []byte(body)}))
		chunks, err := w.Close(t.Context())
		check(t, err)
		m.Topics = append(m.Topics, Topic{Name: fmt.Sprint("t", i), Partitions: []Partition{{End: 1, Chunks: chunks}}})
	}
	check(t, work.Complete(t.Context(), m))
	return m
}

// files returns the names of the files in a repository, those of chunks as the number of them.
func files(t *testing.T, path string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(path, backupsDir, "*"))
	check(t, err)
	chunks, err := filepath.Glob(filepath.Join(path, chunksDir, "*"))
	check(t, err)
	var names []string
	for _, f := range all {
		names = append(names, filepath.Base(f))
	}
	return strings.Join(append(names, fmt.Sprint(len(chunks))), " ")
}

func TestSharedChunksSurviveADeletion(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one", "both")
	b2 := written(t, r, "b2", "x", "two", "both")
	would, err := r.Delete(t.Context(), []string{"b1"}, true)
	check(t, err)
	if files(t, path) != "b1.json b2.json 3" {
		t.Errorf("a dry run has deleted: %s", files(t, path))
	}
	done, err := r.Delete(t.Context(), []string{"b1"}, false)
	check(t, err)
	if done.DryRun = true; fmt.Sprint(done) != fmt.Sprint(would) || done.Chunks != 1 || done.Bytes == 0 || !slices.Equal(done.Kept, []string{"b2"}) {
		t.Errorf("would delete %+v, deleted %+v", would, done)
	}
	if files(t, path) != "b2.json 2" {
		t.Errorf("left: %s", files(t, path))
	}
	if wrong := verified(t, r, b2); len(wrong) > 0 {
		t.Error(wrong)
	}
	for _, id := range []string{"b1", "b3", "../backups/b2"} {
		if _, err := r.Delete(t.Context(), []string{"b2", id}, false); !errors.Is(err, ErrNoBackup) || files(t, path) != "b2.json 2" {
			t.Errorf("%s: %v, left: %s", id, err, files(t, path))
		}
	}
	if _, err := r.Delete(t.Context(), []string{"b2"}, false); err != nil || files(t, path) != "0" {
		t.Errorf("the last: %v, left: %s", err, files(t, path))
	}
	nowhere := filepath.Join(path, "nowhere")
	if _, err := In(Dir(nowhere)).Prune(t.Context(), 1, false); !errors.Is(err, ErrNoBackup) {
		t.Errorf("without backups: %v", err)
	}
	if _, err := os.Stat(nowhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a deletion creates a directory: %v", err)
	}
}

func TestPruneKeepsTheLatestOfEachCluster(t *testing.T) {
	r, path := store(t)
	for i, cluster := range []string{"x", "y", "x", "x", "x"} {
		written(t, r, fmt.Sprint("b", i), cluster, fmt.Sprint(i))
	}
	done, err := r.Prune(t.Context(), 2, false)
	if err != nil || !slices.Equal(done.Backups, []string{"b0", "b2"}) || files(t, path) != "b1.json b3.json b4.json 3" {
		t.Errorf("%+v, %v, left: %s", done, err, files(t, path))
	}
	if done, err = r.Prune(t.Context(), 2, false); err != nil || len(done.Backups) > 0 || done.Chunks > 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// TestDamagedManifestStopsAPrune expects that nothing is deleted while it is unknown what a backup uses.
func TestDamagedManifestStopsAPrune(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	written(t, r, "b2", "x", "two")
	written(t, r, "b3", "x", "three")
	check(t, os.Truncate(filepath.Join(path, backupsDir, "b2.json"), 5))
	if _, err := r.Prune(t.Context(), 1, false); fate.Of(err) != fate.Corrupt || files(t, path) != "b1.json b2.json b3.json 3" {
		t.Errorf("prune: %v, left: %s", err, files(t, path))
	}
	if _, err := r.Delete(t.Context(), []string{"b1"}, false); fate.Of(err) != fate.Corrupt || files(t, path) != "b1.json b2.json b3.json 3" {
		t.Errorf("delete another: %v, left: %s", err, files(t, path))
	}
	if _, err := r.Delete(t.Context(), []string{"b2"}, false); err != nil || files(t, path) != "b1.json b3.json 2" {
		t.Errorf("delete it: %v, left: %s", err, files(t, path))
	}
}

// TestBackupsAndDeletionsExcludeEachOther lets one command find the marker of the other, fresh and
// after its end.
func TestBackupsAndDeletionsExcludeEachOther(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	work := begun(t, r, "b2")
	w := work.Messages(nil)
	check(t, w.Add(t.Context(), &Message{Body: []byte("two")}))
	chunks, err := w.Close(t.Context())
	check(t, err)
	for _, dry := range []bool{true, false} {
		if _, err := r.Delete(t.Context(), []string{"b1"}, dry); !errors.Is(err, ErrBusy) || files(t, path) != "b1.json b2.partial 2" {
			t.Fatalf("during a backup: %v, left: %s", err, files(t, path))
		}
	}
	later := time.Now().Add(leaseEnds + time.Second)
	other := In(Dir(path))
	other.now = func() time.Time { return later }
	done, err := other.Prune(t.Context(), 1, false)
	if err != nil || !slices.Equal(done.Interrupted, []string{"b2"}) || files(t, path) != "b1.json 1" {
		t.Fatalf("after an hour: %+v, %v, left: %s", done, err, files(t, path))
	}
	m := &Manifest{Format: Format, ID: "b2", Topics: []Topic{{Name: "t", Partitions: []Partition{{End: 1, Chunks: chunks}}}}}
	if err := work.Complete(t.Context(), m); !errors.Is(err, errLapsed) || files(t, path) != "b1.json 1" {
		t.Errorf("completed without its chunks: %v, left: %s", err, files(t, path))
	}
	r.now = func() time.Time { return later }
	if err := work.KeepAlive(t.Context()); !errors.Is(err, errLapsed) {
		t.Errorf("continued after an hour: %v", err)
	}
	r.now = time.Now
	l, err := r.take(t.Context(), deletingName(created))
	check(t, err)
	if _, err := r.Begin(t.Context(), "b3"); !errors.Is(err, ErrBusy) || strings.Contains(files(t, path), "b3") {
		t.Errorf("a backup during a deletion: %v, left: %s", err, files(t, path))
	}
	check(t, begun(t, other, "b3").Abandon(t.Context())) // the deletion was interrupted an hour ago
	check(t, l.release(t.Context()))
}

// TestMarkersAreRenewed keeps a backup alive for hours.
func TestMarkersAreRenewed(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	now := time.Now()
	r.now = func() time.Time { return now }
	work := begun(t, r, "b2")
	marker := filepath.Join(path, partialName("b2"))
	for range 20 {
		now = now.Add(leaseHolds - time.Minute)
		check(t, os.WriteFile(marker, nil, 0o600))
		check(t, work.KeepAlive(t.Context()))
		if b, err := os.ReadFile(marker); err != nil || len(b) == 0 {
			t.Fatalf("it is not stored again: %v", err)
		}
		check(t, os.Chtimes(marker, now, now))
	}
	if _, err := r.Prune(t.Context(), 1, false); !errors.Is(err, ErrBusy) {
		t.Errorf("it is not seen: %v", err)
	}
	check(t, work.Complete(t.Context(), &Manifest{Format: Format, ID: "b2"}))
	if files(t, path) != "b1.json b2.json 1" {
		t.Errorf("left: %s", files(t, path))
	}
}

// stalling is a store in which the commit of a manifest takes long.
type stalling struct {
	Store
	meanwhile func()
}

func (s stalling) Draft() (Draft, error) {
	d, err := s.Store.Draft()
	return stallingDraft{d, s.meanwhile}, err
}

type stallingDraft struct {
	Draft
	meanwhile func()
}

func (d stallingDraft) Commit(ctx context.Context, name string) error {
	err := d.Draft.Commit(ctx, name)
	if strings.HasSuffix(name, whole) {
		d.meanwhile()
	}
	return err
}

// TestBackupThatWasCompletedTooLateIsRemoved has a deletion remove the marker and the chunks of a backup while its
// manifest is being stored.
func TestBackupThatWasCompletedTooLateIsRemoved(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	later := time.Now().Add(leaseEnds + time.Second)
	slow := In(stalling{Dir(path), func() {
		check(t, os.Rename(filepath.Join(path, "backups/b2.json"), filepath.Join(path, "b2.json"))) // it is not there yet
		other := In(Dir(path))
		other.now = func() time.Time { return later }
		_, err := other.Prune(t.Context(), 1, false)
		check(t, err)
		check(t, os.Rename(filepath.Join(path, "b2.json"), filepath.Join(path, "backups/b2.json")))
	}})
	work := begun(t, slow, "b2")
	w := work.Messages(nil)
	check(t, w.Add(t.Context(), &Message{Body: []byte("two")}))
	chunks, err := w.Close(t.Context())
	check(t, err)
	m := &Manifest{Format: Format, ID: "b2", Topics: []Topic{{Name: "t", Partitions: []Partition{{End: 1, Chunks: chunks}}}}}
	if err := work.Complete(t.Context(), m); !errors.Is(err, errLapsed) || files(t, path) != "b1.json 1" {
		t.Errorf("%v, left: %s", err, files(t, path))
	}
}

// flat is a store that lists what other prefixes of a bucket contain, too.
type flat struct{ Store }

func (f flat) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o, err := range f.Store.List(ctx, prefix) {
			if !yield(o, err) || prefix == backupsDir+"/" && !yield(Object{Name: backupsDir + "/" + o.Name, Modified: time.Now()}, nil) {
				return
			}
		}
	}
}

// TestStoreBelowAnotherIsNotListed has a repository in s3://B/backups beside one in s3://B.
func TestStoreBelowAnotherIsNotListed(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	check(t, os.WriteFile(filepath.Join(path, "backups", "b9.partial"), nil, 0o600))
	check(t, os.Chtimes(filepath.Join(path, "backups", "b9.partial"), time.Unix(1, 0), time.Unix(1, 0)))
	listed, err := In(flat{Dir(path)}).List(t.Context())
	if err != nil || len(listed) != 2 {
		t.Errorf("%+v, %v", listed, err)
	}
	done, err := In(flat{Dir(path)}).Prune(t.Context(), 1, false)
	if err != nil || !slices.Equal(done.Kept, []string{"b1"}) {
		t.Errorf("%+v, %v", done, err)
	}
}

// faulty is a store that fails, once it has carried out a number of changes, as after a crash.
type faulty struct {
	Store
	left atomic.Int64
}

var errCrash = errors.New("crash")

func (f *faulty) spend() error {
	if f.left.Add(-1) < 0 {
		return errCrash
	}
	return nil
}

func (f *faulty) Remove(ctx context.Context, name string) error {
	if err := f.spend(); err != nil {
		return err
	}
	return f.Store.Remove(ctx, name)
}

type faultyDraft struct {
	Draft
	f *faulty
}

func (f *faulty) Draft() (Draft, error) {
	d, err := f.Store.Draft()
	return faultyDraft{d, f}, err
}

func (d faultyDraft) Commit(ctx context.Context, name string) error {
	if err := d.f.spend(); err != nil {
		return errors.Join(err, d.Discard())
	}
	return d.Draft.Commit(ctx, name)
}

// TestCrashAtEachStepLeavesIntactBackups interrupts a backup and a deletion after each of their changes.
func TestCrashAtEachStepLeavesIntactBackups(t *testing.T) {
	for steps, ended := 0, false; !ended; steps++ {
		r, path := store(t)
		written(t, r, "b1", "x", "one", "both")
		written(t, r, "b2", "x", "two", "both")
		crashing := &faulty{Store: Dir(path)}
		crashing.left.Store(int64(steps))
		broken := In(crashing)
		work, err := broken.Begin(t.Context(), "b3")
		var chunks []Chunk
		if err == nil {
			w := work.Messages(nil)
			if err = w.Add(t.Context(), &Message{Body: []byte("three")}); err == nil {
				chunks, err = w.Close(t.Context())
			}
		}
		if err == nil {
			err = work.Complete(t.Context(), &Manifest{Format: Format, ID: "b3", Cluster: "x", Topics: []Topic{{Name: "t", Partitions: []Partition{{End: 1, Chunks: chunks}}}}})
		}
		if err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		made := err == nil
		if made {
			_, err = broken.Prune(t.Context(), 1, false)
			ended = err == nil
		}
		listed, err := r.List(t.Context())
		check(t, err)
		for _, l := range listed {
			if l.Complete {
				if wrong := verified(t, r, l.Manifest); len(wrong) > 0 {
					t.Errorf("after %d changes: backup %s: %v", steps, l.ID, wrong)
				}
			}
			if l.ID == "b3" && l.Complete != made {
				t.Errorf("after %d changes: backup made %v, listed as %+v", steps, made, l)
			}
		}
		later := In(Dir(path))
		later.now = func() time.Time { return time.Now().Add(leaseEnds + time.Second) }
		if _, err := later.Prune(t.Context(), 1, false); err != nil || strings.Count(files(t, path), " ") != 1 {
			t.Errorf("after %d changes and a deletion later: %v, left: %s", steps, err, files(t, path))
		}
	}
}

// lossy is a store that commits, but whose answer is lost.
type lossy struct{ Store }

type lossyDraft struct{ Draft }

func (l lossy) Draft() (Draft, error) {
	d, err := l.Store.Draft()
	return lossyDraft{d}, err
}

func (d lossyDraft) Commit(ctx context.Context, name string) error {
	if err := d.Draft.Commit(ctx, name); err != nil || filepath.Ext(name) != whole {
		return err
	}
	return errCrash
}

func TestLostAnswerIsNoLostBackup(t *testing.T) {
	_, path := store(t)
	work := begun(t, In(lossy{Dir(path)}), "b1")
	if err := work.Complete(t.Context(), &Manifest{Format: Format, ID: "b1"}); err != nil || files(t, path) != "b1.json 0" {
		t.Errorf("%v, left: %s", err, files(t, path))
	}
}

// TestOtherFilesAreLeftAlone puts files of others among the chunks, and an old one that was being written.
func TestOtherFilesAreLeftAlone(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	old := time.Now().Add(-2 * leaseEnds)
	for name, at := range map[string]time.Time{"README": old, strings.Repeat("0", 63) + ".gz": old, tempPrefix + "old": old, tempPrefix + "new": time.Now()} {
		check(t, os.WriteFile(filepath.Join(path, chunksDir, name), nil, 0o600))
		check(t, os.Chtimes(filepath.Join(path, chunksDir, name), at, at))
	}
	_, err := r.Delete(t.Context(), []string{"b1"}, false)
	check(t, err)
	left, err := filepath.Glob(filepath.Join(path, chunksDir, "*"))
	check(t, err)
	if len(left) != 3 || slices.Contains(left, filepath.Join(path, chunksDir, tempPrefix+"old")) {
		t.Errorf("left: %v", left)
	}
}

// unreadable is a store that opens nothing.
type unreadable struct{ Store }

func (unreadable) Open(context.Context, string, int64) (io.ReadSeekCloser, error) {
	return nil, fs.ErrPermission
}

// TestUnreadableStoreIsNoDamage expects an error, and no damaged chunk, if the store cannot be read.
func TestUnreadableStoreIsNoDamage(t *testing.T) {
	r, path := store(t)
	m := written(t, r, "b1", "x", "one", "two")
	if wrong, err := In(unreadable{Dir(path)}).Verify(t.Context(), m); !errors.Is(err, fs.ErrPermission) || len(wrong) > 0 {
		t.Errorf("%v, %v", wrong, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if wrong, err := r.Verify(ctx, m); !errors.Is(err, context.Canceled) || len(wrong) > 0 {
		t.Errorf("interrupted: %v, %v", wrong, err)
	}
}

// marking is a store in which something happens just before the marker of a deletion is stored.
type marking struct {
	Store
	before func()
}

func (m marking) Draft() (Draft, error) {
	d, err := m.Store.Draft()
	return markingDraft{d, m.before}, err
}

type markingDraft struct {
	Draft
	before func()
}

func (d markingDraft) Commit(ctx context.Context, name string) error {
	if strings.HasSuffix(name, deleting) {
		d.before()
	}
	return d.Draft.Commit(ctx, name)
}

// TestBackupThatBeginsBeforeTheMarkerStopsADeletion: the deletion has found the repository idle, and the backup does not
// see the marker yet. What the backup has found there must stay.
func TestBackupThatBeginsBeforeTheMarkerStopsADeletion(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	var work *Work
	r2 := In(marking{Dir(path), func() { work = begun(t, r, "b2") }})
	if _, err := r2.Delete(t.Context(), []string{"b1"}, false); !errors.Is(err, ErrBusy) || !strings.HasPrefix(files(t, path), "b1.json b2.partial") {
		t.Errorf("%v, left: %s", err, files(t, path))
	}
	w := work.Messages(nil)
	check(t, w.Add(t.Context(), &Message{Body: []byte("one")})) // in the same chunk
	chunks, err := w.Close(t.Context())
	check(t, err)
	check(t, work.Complete(t.Context(), &Manifest{Format: Format, ID: "b2", Topics: []Topic{{Name: "t", Partitions: []Partition{{End: 1, Chunks: chunks}}}}}))
	if files(t, path) != "b1.json b2.json 1" {
		t.Errorf("left: %s", files(t, path))
	}
}
