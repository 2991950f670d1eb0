package s3store

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/s3test"
	"github.com/brokerd/brokerd/pkg/backup"
)

// environ is an environment with the credentials of the service.
func environ(s *s3test.Server) func(string) string {
	return func(name string) string {
		return map[string]string{
			"AWS_ACCESS_KEY_ID": s3test.AccessKey, "AWS_SECRET_ACCESS_KEY": s3test.SecretKey, "AWS_ENDPOINT_URL_S3": s.URL,
		}[name]
	}
}

// partSize is the size of the parts of large objects: the smallest that the protocol allows.
const partSize = 5 << 20

// open opens a store in the bucket of the service.
func open(t *testing.T, s *s3test.Server, o Options) *Store {
	t.Helper()
	o.part = partSize
	if o.Getenv == nil {
		o.Getenv = environ(s)
	}
	store, err := Open("s3://"+s3test.Bucket+"/some/prefix/", o)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put stores an object.
func put(t *testing.T, s backup.Store, name string, content []byte) error {
	t.Helper()
	d, err := s.Draft()
	check(t, err)
	_, err = d.Write(content)
	check(t, err)
	return d.Commit(t.Context(), name)
}

// get reads an object.
func get(t *testing.T, s backup.Store, name string, limit int64) ([]byte, error) {
	t.Helper()
	f, err := s.Open(t.Context(), name, limit)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(f)
	return content, errors.Join(err, f.Close())
}

// names lists the objects with a prefix.
func names(t *testing.T, s backup.Store, prefix string) (all []string, err error) {
	t.Helper()
	for o, err := range s.List(t.Context(), prefix) {
		if err != nil {
			return nil, err
		}
		all = append(all, o.Name)
	}
	slices.Sort(all)
	return all, nil
}

// TestStoresBehaveAlike runs the same calls with a directory and with a bucket.
func TestStoresBehaveAlike(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), partSize/16*2+1)
	for name, s := range map[string]backup.Store{"directory": backup.Dir(t.TempDir()), "bucket": open(t, s3test.Start(t, false), Options{})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if all, err := names(t, s, "backups/"); len(all) > 0 || err != nil {
				t.Errorf("empty: %v, %v", all, err)
			}
			for _, content := range [][]byte{nil, []byte("one"), large} {
				check(t, put(t, s, "chunks/a.gz", content))
				if got, err := get(t, s, "chunks/a.gz", int64(len(content))); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%d bytes: read %d, %v", len(content), len(got), err)
				}
			}
			if got, err := get(t, s, "chunks/a.gz", 10); err != nil || len(got) <= 10 {
				t.Errorf("over its limit: read %d, %v", len(got), err)
			}
			check(t, put(t, s, "chunks/b.gz", nil))
			check(t, put(t, s, "backups/x.json", nil))
			d, err := s.Draft()
			check(t, err)
			check(t, d.Discard())
			for prefix, want := range map[string]string{"chunks/": "chunks/a.gz chunks/b.gz", "chunks/b": "chunks/b.gz", "backups/": "backups/x.json"} {
				if all, err := names(t, s, prefix); strings.Join(all, " ") != want || err != nil {
					t.Errorf("%s: %v, %v", prefix, all, err)
				}
			}
			for o := range s.List(t.Context(), "chunks/a") {
				if o.Bytes != int64(len(large)) || time.Since(o.Modified) > time.Minute {
					t.Errorf("%+v", o)
				}
			}
			for range 2 {
				check(t, s.Remove(t.Context(), "chunks/a.gz"))
			}
			if _, err := get(t, s, "chunks/a.gz", 10); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("removed: %v", err)
			}
			check(t, s.Tidy(t.Context(), time.Now()))
		})
	}
}

// TestListIsReadToItsEnd lists more keys than one answer has.
func TestListIsReadToItsEnd(t *testing.T) {
	server := s3test.Start(t, false)
	server.PageKeys = 2
	s := open(t, server, Options{})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		check(t, put(t, s, "chunks/"+name, nil))
	}
	if all, err := names(t, s, "chunks/"); len(all) != 5 || err != nil {
		t.Errorf("%v, %v", all, err)
	}
}

// failing returns a fault for the first n requests of a method whose path has a suffix.
func failing(n int, method, suffix string, f s3test.Fault) func(*http.Request) *s3test.Fault {
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	return func(r *http.Request) *s3test.Fault {
		if r.Method == method && strings.HasSuffix(r.URL.Path, suffix) {
			select {
			case <-left:
				return &f
			default:
			}
		}
		return nil
	}
}

// TestRequestsAreRepeated injects failures that pass.
func TestRequestsAreRepeated(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), partSize/16*2+1)
	for name, fail := range map[string]func(*http.Request) *s3test.Fault{
		"500 of the region":   failing(2, http.MethodGet, "/"+s3test.Bucket+"/", s3test.Fault{Status: 500, Code: "InternalError"}),
		"503 of a part":       failing(3, http.MethodPut, "a.gz", s3test.Fault{Status: 503, Code: "SlowDown"}),
		"part cut":            failing(2, http.MethodPut, "a.gz", s3test.Fault{CutRequest: partSize / 2}),
		"answer of a part":    failing(2, http.MethodPut, "a.gz", s3test.Fault{LoseAnswer: true}),
		"500 of a completion": failing(2, http.MethodPost, "a.gz", s3test.Fault{Status: 500, Code: "InternalError"}),
		"answer of a completion": func() func(*http.Request) *s3test.Fault {
			lose := failing(1, http.MethodPost, "a.gz", s3test.Fault{LoseAnswer: true})
			return func(r *http.Request) *s3test.Fault {
				if r.URL.Query().Has("uploadId") {
					return lose(r)
				}
				return nil
			}
		}(),
		"503 of a download":    failing(2, http.MethodGet, "a.gz", s3test.Fault{Status: 503, Code: "SlowDown"}),
		"download cut":         failing(3, http.MethodGet, "a.gz", s3test.Fault{CutAnswer: 1 << 20}),
		"download cut at once": failing(3, http.MethodGet, "a.gz", s3test.Fault{LoseAnswer: true}),
		"part stalls":          failing(1, http.MethodPut, "a.gz", s3test.Fault{Stall: make(chan struct{})}),
		"download stalls":      failing(1, http.MethodGet, "a.gz", s3test.Fault{Stall: make(chan struct{})}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := s3test.Start(t, false)
			server.Fail(fail)
			s := open(t, server, Options{stall: 2 * time.Second})
			check(t, put(t, s, "chunks/a.gz", content))
			if got, err := get(t, s, "chunks/a.gz", int64(len(content))); err != nil || !bytes.Equal(got, content) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
			if n := server.Uploads(); n > 0 {
				t.Errorf("%d uploads are left", n)
			}
		})
	}
}

// TestFailuresAreExplained injects failures that stay. The store gives up.
func TestFailuresAreExplained(t *testing.T) {
	always := func(f s3test.Fault) func(*http.Request) *s3test.Fault {
		return func(*http.Request) *s3test.Fault { return &f }
	}
	for name, c := range map[string]struct {
		fail func(*http.Request) *s3test.Fault
		is   error
		says string
	}{
		"403":     {always(s3test.Fault{Status: 403, Code: "AccessDenied"}), ErrDenied, "s3://backups/some/prefix: the service says AccessDenied (AccessDenied), request R1"},
		"404":     {always(s3test.Fault{Status: 404, Code: unknownKey}), ErrDenied, "(XAdminUserNotFound), request R1"},
		"500":     {always(s3test.Fault{Status: 500, Code: "InternalError"}), ErrBusy, "the service says InternalError (InternalError), request R1"},
		"503":     {always(s3test.Fault{Status: 503, Code: "SlowDown"}), ErrBusy, "after up to 2 tries: the service says SlowDown (SlowDown), request R1"},
		"507":     {always(s3test.Fault{Status: 507, Code: "QuotaExceeded"}), nil, "(QuotaExceeded)"},
		"cut":     {always(s3test.Fault{LoseAnswer: true}), ErrUnreachable, "after up to 2 tries"},
		"stalled": {always(s3test.Fault{Stall: make(chan struct{})}), ErrUnreachable, "after up to 2 tries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := s3test.Start(t, false)
			s := open(t, server, Options{stall: 100 * time.Millisecond, tries: 2})
			check(t, put(t, s, "chunks/a.gz", []byte("one")))
			server.Fail(c.fail)
			_, read := get(t, s, "chunks/a.gz", 10)
			_, listed := names(t, s, "chunks/")
			for what, err := range map[string]error{
				"put": put(t, s, "chunks/b.gz", nil), "get": read, "list": listed, "remove": s.Remove(t.Context(), "chunks/a.gz"), "tidy": s.Tidy(t.Context(), time.Now()),
			} {
				if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", what, err)
				}
				if err != nil && strings.Contains(err.Error(), s3test.SecretKey) {
					t.Errorf("%s: the secret is in the error: %v", what, err)
				}
			}
		})
	}
}

// TestAccessIsExplained uses wrong credentials, clocks, buckets and endpoints.
func TestAccessIsExplained(t *testing.T) {
	server := s3test.Start(t, false)
	secure := s3test.Start(t, true)
	other := s3test.Start(t, false)
	other.SetNow(func() time.Time { return time.Now().Add(time.Hour) })
	with := func(s *s3test.Server, name, value string) func(string) string {
		return func(n string) string {
			if n == name {
				return value
			}
			return environ(s)(n)
		}
	}
	for name, c := range map[string]struct {
		location string
		getenv   func(string) string
		is       error
		says     string
	}{
		"key":         {"s3://backups", with(server, "AWS_ACCESS_KEY_ID", "other"), ErrDenied, "InvalidAccessKeyId"},
		"secret":      {"s3://backups", with(server, "AWS_SECRET_ACCESS_KEY", "other"), ErrDenied, "SignatureDoesNotMatch"},
		"bucket":      {"s3://missing/x", environ(server), ErrNoBucket, "s3://missing at http://127.0.0.1"},
		"clock":       {"s3://backups", environ(other), ErrDenied, "the clock of this machine"},
		"certificate": {"s3://backups", environ(secure), ErrUnreachable, "--s3-ca-file"},
		"plain":       {"s3://backups", with(server, "AWS_ENDPOINT_URL_S3", strings.Replace(server.URL, "http:", "https:", 1)), ErrUnreachable, "HTTP response to HTTPS client"},
		"nobody":      {"s3://backups", with(server, "AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1"), ErrUnreachable, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, region := range []string{"", s3test.Region} {
				s, err := Open(c.location, Options{Getenv: c.getenv, Region: region, tries: 2})
				check(t, err)
				if _, err := names(t, s, "backups/"); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("region %q: %v", region, err)
				}
			}
		})
	}
}

// TestTLSIsVerified trusts the authority in a file.
func TestTLSIsVerified(t *testing.T) {
	server := s3test.Start(t, true)
	file := filepath.Join(t.TempDir(), "ca.pem")
	check(t, writePEM(file, server.Certificate().Raw))
	s := open(t, server, Options{CAFile: file})
	check(t, put(t, s, "chunks/a.gz", bytes.Repeat([]byte("x"), partSize+1)))
	if got, err := get(t, s, "chunks/a.gz", partSize+1); err != nil || len(got) != partSize+1 {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if _, err := Open("s3://backups", Options{Getenv: environ(server), CAFile: file + "x"}); err == nil {
		t.Error("without the file")
	}
}

// TestUploadsInPartsAreAborted leaves an upload without an end, and one of another program in the same bucket.
func TestUploadsInPartsAreAborted(t *testing.T) {
	server := s3test.Start(t, false)
	s := open(t, server, Options{tries: 1})
	server.Fail(func(r *http.Request) *s3test.Fault {
		if r.URL.Query().Has("uploadId") {
			return &s3test.Fault{LoseAnswer: r.Method != http.MethodDelete, Status: map[bool]int{true: 500}[r.Method == http.MethodDelete], Code: "InternalError"}
		}
		return nil
	})
	if err := put(t, s, "chunks/a.gz", make([]byte, 2*partSize)); !errors.Is(err, ErrUnreachable) || server.Uploads() != 1 {
		t.Fatalf("%v, %d uploads", err, server.Uploads())
	}
	if err := put(t, s, "other/video", make([]byte, 2*partSize)); !errors.Is(err, ErrUnreachable) || server.Uploads() != 2 {
		t.Fatalf("%v, %d uploads", err, server.Uploads())
	}
	server.Fail(nil)
	check(t, s.Tidy(t.Context(), time.Now().Add(-24*time.Hour)))
	if server.Uploads() != 2 {
		t.Error("an upload that may be in progress was aborted")
	}
	check(t, s.Tidy(t.Context(), time.Now().Add(-time.Hour)))
	if n := server.Uploads(); n != 1 {
		t.Errorf("%d uploads are left, want that of the other program", n)
	}
}
