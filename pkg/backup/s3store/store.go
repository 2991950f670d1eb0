package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/brokerd/brokerd/pkg/backup"
)

// partBytes is the size of the parts of a large object, and of memory for each upload.
const partBytes = 16 << 20

// Store is a store in a bucket.
type Store struct {
	core             minio.Core
	bucket, prefix   string
	region, endpoint string
	tries            int
	part             int64       // bytes
	located          atomic.Bool // the region is known, or was asked for
}

// String returns the location.
func (s *Store) String() string { return strings.TrimSuffix(Scheme+s.bucket+"/"+s.prefix, "/") }

// key returns the key of an object in the bucket.
func (s *Store) key(name string) string {
	if s.prefix == "" {
		return name
	}
	return s.prefix + "/" + name
}

// locate makes the client find out the region of the bucket, which it does not retry.
func (s *Store) locate(ctx context.Context) error {
	if s.region != "" || s.located.Load() {
		return nil
	}
	err := s.retry(ctx, func() error {
		_, err := s.core.GetBucketLocation(ctx, s.bucket)
		return err
	})
	if err == nil || code(err) != "" && code(err) != minio.NoSuchBucket {
		s.located.Store(true) // otherwise the answer to the request says what is wrong
		return nil
	}
	return s.explain(err)
}

// retry calls f until it succeeds, fails for good, or has failed too often.
func (s *Store) retry(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || try >= s.tries || ctx.Err() != nil || !retryable(err) {
			return err
		}
		timer := time.NewTimer(min(time.Second, 50*time.Millisecond<<try))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// final is an error after which a request is not repeated.
type final struct{ error }

// Unwrap returns the error.
func (f final) Unwrap() error { return f.error }

// draft is an object in a temporary file without a name.
type draft struct {
	*os.File
	s *Store
}

// temporary creates a temporary file, which disappears with the process.
func temporary() (*os.File, error) {
	f, err := os.CreateTemp("", "brokerctl-backup-*")
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Draft creates a temporary file.
func (s *Store) Draft() (backup.Draft, error) {
	f, err := temporary()
	return draft{f, s}, err
}

// Commit sends the file.
func (d draft) Commit(ctx context.Context, name string) (err error) {
	defer func() { err = errors.Join(err, d.Discard()) }()
	size, err := d.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = d.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	if err := d.s.locate(ctx); err != nil {
		return err
	}
	kind := map[string]string{".json": "application/json", ".gz": "application/gzip"}[path.Ext(name)]
	for try := 1; ; try++ {
		// The library closes what it can close, and repeats each request. The MD5 is signed: without TLS, the library would
		// sign pieces of the body as well, which some services store together with their signatures.
		_, err := d.s.core.Client.PutObject(ctx, d.s.bucket, d.s.key(name), io.NewSectionReader(d.File, 0, size), size,
			minio.PutObjectOptions{ContentType: kind, SendContentMd5: true, DisableContentSha256: true, PartSize: uint64(d.s.part)})
		if code(err) == minio.NoSuchUpload {
			err = d.s.settle(ctx, name, size, err)
		}
		if try == maxUploads || code(err) != minio.NoSuchUpload {
			return d.s.explain(err)
		}
	}
}

// maxUploads is how often an upload in parts is begun that the service has forgotten.
const maxUploads = 3

// settle finds out whether an upload in parts has ended, whose end was requested twice because the
// first answer was lost.
func (s *Store) settle(ctx context.Context, name string, size int64, failed error) error {
	for o, err := range s.List(ctx, name) {
		if err != nil {
			return err
		}
		if o.Name == name && o.Bytes == size {
			return nil
		}
	}
	return failed
}

// Discard closes the file.
func (d draft) Discard() error { return d.Close() }

// Open reads an object into a temporary file. If the connection fails, it continues there.
func (s *Store) Open(ctx context.Context, name string, limit int64) (io.ReadSeekCloser, error) {
	if err := s.locate(ctx); err != nil {
		return nil, err
	}
	f, err := temporary()
	if err != nil {
		return nil, err
	}
	d := &download{s: s, f: f, key: s.key(name), limit: limit}
	if err := s.retry(ctx, func() error { return d.more(ctx) }); err != nil {
		return nil, errors.Join(s.explain(err), f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// download reads an object into a file.
type download struct {
	s         *Store
	f         *os.File
	key, etag string
	limit, at int64
}

// more reads the rest of the object, but not beyond the limit.
func (d *download) more(ctx context.Context) error {
	o := minio.GetObjectOptions{}
	if d.at > 0 { // the object is the same as before
		if err := errors.Join(o.SetRange(d.at, 0), o.SetMatchETag(d.etag)); err != nil {
			return err
		}
	}
	body, info, header, err := d.s.core.GetObject(ctx, d.s.bucket, d.key, o)
	if err != nil {
		return final{err} // the library has repeated the request
	}
	if d.at > 0 && header.Get("Content-Range") == "" { // the service sends all of it
		if err := d.restart(); err != nil {
			return errors.Join(err, body.Close())
		}
	}
	d.etag = info.ETag
	n, err := io.Copy(d.f, io.LimitReader(body, d.limit+1-d.at))
	d.at += n
	_ = body.Close() // all that is needed was read
	if err == nil && info.Size > n && d.at <= d.limit {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (d *download) restart() error {
	d.at = 0
	_, err := d.f.Seek(0, io.SeekStart)
	return errors.Join(err, d.f.Truncate(0))
}

// List lists the objects, a thousand with each request.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backup.Object, error] {
	return func(yield func(backup.Object, error) bool) {
		if err := s.locate(ctx); err != nil {
			yield(backup.Object{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.key(prefix), Recursive: true}) {
			if o.Err != nil {
				yield(backup.Object{}, s.explain(o.Err))
				return
			}
			if !yield(backup.Object{Name: strings.TrimPrefix(o.Key, s.key("")), Bytes: o.Size, Modified: o.LastModified}, nil) {
				return
			}
		}
		if err := context.Cause(ctx); err != nil { // the list may be cut
			yield(backup.Object{}, err)
		}
	}
}

// Remove removes an object.
func (s *Store) Remove(ctx context.Context, name string) error {
	if err := s.locate(ctx); err != nil {
		return err
	}
	return s.explain(s.core.RemoveObject(ctx, s.bucket, s.key(name), minio.RemoveObjectOptions{}))
}

// Tidy aborts uploads in parts, whose parts are stored and paid for until then. Some services do
// not list them: they abort them automatically. Other programs may use the bucket, too.
func (s *Store) Tidy(ctx context.Context, before time.Time) error {
	if err := s.locate(ctx); err != nil {
		return err
	}
	for _, dir := range backup.Directories() {
		if err := s.tidy(ctx, s.key(dir+"/"), before); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) tidy(ctx context.Context, prefix string, before time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for u := range s.core.ListIncompleteUploads(ctx, s.bucket, prefix, true) {
		if code(u.Err) == minio.NotImplemented {
			return nil
		}
		if u.Err != nil {
			return s.explain(u.Err)
		}
		if u.Initiated.Before(before) {
			if err := s.core.AbortMultipartUpload(ctx, s.bucket, u.Key, u.UploadID); err != nil && code(err) != minio.NoSuchUpload {
				return s.explain(err)
			}
		}
	}
	return context.Cause(ctx)
}
