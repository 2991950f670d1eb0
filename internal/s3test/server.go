// Package s3test is an S3 service in memory, for tests. It verifies the signatures of requests and
// the checksums of their bodies, and fails as a test wants.
package s3test

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the protocol wants it
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The credentials that the service accepts, and its region.
const (
	AccessKey = "AKIDEXAMPLE"
	SecretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" //nolint:gosec // of Amazon's documentation
	Region    = "eu-test-1"
)

// Bucket is the bucket that exists.
const Bucket = "backups"

// Fault is how a request fails. The zero value of each field is none of it.
type Fault struct {
	Status     int           // answered without doing anything,
	Code       string        // with this code
	CutRequest int64         // the connection is cut after that many bytes of the request
	CutAnswer  int64         // likewise of the answer
	LoseAnswer bool          // the request is carried out, and its answer lost
	Stall      chan struct{} // nothing happens before it is closed, or the client leaves
}

// Server is the service.
type Server struct {
	*httptest.Server
	// PageKeys limits the keys that one answer lists.
	PageKeys int

	stop    chan struct{}
	mu      sync.Mutex
	now     func() time.Time
	objects map[string]object            // by key
	uploads map[string]map[int]object    // by key and id, the parts
	fail    func(r *http.Request) *Fault // may be nil
	counts  map[string]int               // of requests, by method and kind
}

type object struct {
	content  []byte
	modified time.Time
}

func (o object) etag() string {
	sum := md5.Sum(o.content) //nolint:gosec // likewise
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// Start starts a service, which ends with the test. With secure it speaks TLS.
func Start(t *testing.T, secure bool) *Server {
	t.Helper()
	s := &Server{PageKeys: 1000, stop: make(chan struct{}), now: time.Now, objects: map[string]object{}, uploads: map[string]map[int]object{}, counts: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = nil
	if secure {
		s.StartTLS()
	} else {
		s.Server.Start()
	}
	t.Cleanup(func() { close(s.stop); s.CloseClientConnections(); s.Close() })
	return s
}

// Fail sets which requests fail. f may be called concurrently.
func (s *Server) Fail(f func(r *http.Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// SetNow sets the clock.
func (s *Server) SetNow(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// Count returns the number of requests of a kind: "PUT", "GET", "DELETE", "HEAD", or "LIST",
// "LOCATION", "PART", "UPLOAD", "COMPLETE", "UPLOADS", "ABORT".
func (s *Server) Count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[kind]
}

// Keys returns the keys that begin with a prefix, in order.
func (s *Server) Keys(prefix string) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.objects {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// Uploads returns the number of uploads in parts that have not ended.
func (s *Server) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Change replaces the content of an object; nil removes it.
func (s *Server) Change(key string, f func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	if o.content = f(bytes.Clone(o.content)); o.content == nil {
		delete(s.objects, key)
		return
	}
	s.objects[key] = o
}

// kindOf names a request.
func kindOf(r *http.Request, key string) string {
	q := r.URL.Query()
	switch {
	case q.Has("location"):
		return "LOCATION"
	case key == "" && q.Has("uploads"):
		return "UPLOADS"
	case key == "":
		return "LIST"
	case r.Method == http.MethodPost && q.Has("uploads"):
		return "UPLOAD"
	case r.Method == http.MethodPost:
		return "COMPLETE"
	case r.Method == http.MethodPut && q.Has("uploadId"):
		return "PART"
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		return "ABORT"
	}
	return r.Method
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	kind := kindOf(r, key)
	s.mu.Lock()
	s.counts[kind]++
	fail, now := s.fail, s.now()
	s.mu.Unlock()
	f := &Fault{}
	if fail != nil {
		if is := fail(r); is != nil {
			f = is
		}
	}
	if !f.before(w, r, s.stop) {
		return
	}
	body, refused := authenticate(r, now)
	switch {
	case refused != "":
		refuse(w, http.StatusForbidden, refused)
		return
	case bucket != Bucket:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	if sum := md5.Sum(body); r.Header.Get("Content-Md5") != "" && r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) { //nolint:gosec // likewise
		refuse(w, http.StatusBadRequest, "BadDigest")
		return
	}
	answer := httptest.NewRecorder()
	s.mu.Lock()
	s.answer(answer, r, kind, key, body, now)
	s.mu.Unlock()
	f.after(w, answer)
}

// before fails a request before it is carried out. It returns false if it has answered.
func (f *Fault) before(w http.ResponseWriter, r *http.Request, stop chan struct{}) bool {
	if f.Stall != nil {
		select {
		case <-f.Stall:
		case <-r.Context().Done():
			return false
		case <-stop: // the client's leaving is not noticed while its body is not read
			panic(http.ErrAbortHandler)
		}
	}
	if f.CutRequest > 0 {
		_, _ = io.CopyN(io.Discard, r.Body, f.CutRequest)
		panic(http.ErrAbortHandler)
	}
	if f.Status > 0 {
		_, _ = io.Copy(io.Discard, r.Body)
		refuse(w, f.Status, f.Code)
		return false
	}
	return true
}

// after sends the answer, or a part of it.
func (f *Fault) after(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	if f.LoseAnswer {
		panic(http.ErrAbortHandler)
	}
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	content := answer.Body.Bytes()
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(answer.Code)
	if f.CutAnswer > 0 && f.CutAnswer < int64(len(content)) {
		_, _ = w.Write(content[:f.CutAnswer])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(content)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Amz-Request-Id", "R1")
	write(w, status, struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: "the service says " + code})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(v)
}

// answer carries a request out.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, kind, key string, body []byte, now time.Time) {
	q := r.URL.Query()
	upload := key + "?" + q.Get("uploadId")
	switch kind {
	case "LOCATION":
		write(w, http.StatusOK, struct {
			XMLName xml.Name `xml:"LocationConstraint"`
			Region  string   `xml:",chardata"`
		}{Region: Region})
	case "LIST":
		s.list(w, q)
	case "UPLOADS":
		s.listUploads(w, q, now)
	case "UPLOAD":
		id := fmt.Sprint("u", s.counts["UPLOAD"])
		s.uploads[key+"?"+id] = map[int]object{}
		write(w, http.StatusOK, struct {
			XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
			Bucket, Key, UploadId string
		}{Bucket: Bucket, Key: key, UploadId: id})
	case "PART":
		n, _ := strconv.Atoi(q.Get("partNumber"))
		if s.uploads[upload] == nil {
			refuse(w, http.StatusNotFound, "NoSuchUpload")
			return
		}
		s.uploads[upload][n] = object{body, now}
		w.Header().Set("Etag", s.uploads[upload][n].etag())
	case "COMPLETE":
		s.complete(w, key, upload, body, now)
	case "ABORT":
		delete(s.uploads, upload)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPut:
		s.objects[key] = object{body, now}
		w.Header().Set("Etag", s.objects[key].etag())
	case http.MethodGet, http.MethodHead:
		s.get(w, r, key)
	case http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	o, there := s.objects[key]
	switch {
	case !there:
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	case r.Header.Get("If-Match") != "" && strings.Trim(r.Header.Get("If-Match"), `"`) != strings.Trim(o.etag(), `"`):
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	w.Header().Set("Etag", o.etag())
	w.Header().Set("Last-Modified", o.modified.UTC().Format(http.TimeFormat))
	content, status := o.content, http.StatusOK
	if from, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(from, "-"))
		if err != nil || n >= len(content) {
			refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", n, len(content)-1, len(content)))
		content, status = content[n:], http.StatusPartialContent
	}
	w.WriteHeader(status)
	_, _ = w.Write(content)
}

type listed struct {
	Key, LastModified, ETag string
	Size                    int
}

func (s *Server) list(w http.ResponseWriter, q url.Values) {
	var keys []string
	for k := range s.objects {
		if strings.HasPrefix(k, q.Get("prefix")) && k > q.Get("continuation-token") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	page := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name, Prefix          string
		EncodingType          string `xml:",omitempty"`
		KeyCount, MaxKeys     int
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []listed
	}{Name: Bucket, Prefix: encoded(q.Get("prefix"), q), EncodingType: q.Get("encoding-type"), MaxKeys: s.PageKeys}
	if page.IsTruncated = len(keys) > s.PageKeys; page.IsTruncated {
		keys = keys[:s.PageKeys]
		page.NextContinuationToken = keys[len(keys)-1]
	}
	for _, k := range keys {
		o := s.objects[k]
		page.Contents = append(page.Contents, listed{encoded(k, q), o.modified.UTC().Format("2006-01-02T15:04:05.000Z"), o.etag(), len(o.content)})
	}
	page.KeyCount = len(keys)
	write(w, http.StatusOK, page)
}

func encoded(key string, q url.Values) string {
	if q.Get("encoding-type") == "url" {
		return url.QueryEscape(key)
	}
	return key
}

func (s *Server) listUploads(w http.ResponseWriter, q url.Values, now time.Time) {
	type upload struct{ Key, UploadId, Initiated string }
	page := struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket  string

		EncodingType string `xml:",omitempty"`
		Upload       []upload
	}{Bucket: Bucket, EncodingType: q.Get("encoding-type")}
	for name := range s.uploads {
		if key, id, _ := strings.Cut(name, "?"); strings.HasPrefix(key, q.Get("prefix")) {
			page.Upload = append(page.Upload, upload{encoded(key, q), id, now.Add(-2 * time.Hour).UTC().Format(time.RFC3339)})
		}
	}
	write(w, http.StatusOK, page)
}

func (s *Server) complete(w http.ResponseWriter, key, upload string, body []byte, now time.Time) {
	var want struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	parts := s.uploads[upload]
	if err := xml.Unmarshal(body, &want); err != nil || parts == nil {
		refuse(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	var content []byte
	for _, p := range want.Part {
		o, there := parts[p.PartNumber]
		if !there || strings.Trim(o.etag(), `"`) != strings.Trim(p.ETag, `"`) {
			refuse(w, http.StatusBadRequest, "InvalidPart")
			return
		}
		content = append(content, o.content...)
	}
	delete(s.uploads, upload)
	s.objects[key] = object{content, now}
	write(w, http.StatusOK, struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket, Key, ETag string
	}{Bucket: Bucket, Key: key, ETag: s.objects[key].etag()})
}
