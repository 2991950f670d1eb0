package s3store

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/minio/minio-go/v7"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Errors of a service, which are wrapped with its words.
var (
	ErrNoBucket    = fate.Refuse("bucket does not exist")
	ErrDenied      = fate.Refuse("S3 access denied")
	ErrUnreachable = errors.New("S3 endpoint does not respond")
	ErrBusy        = errors.New("S3 endpoint answers that it is busy or failing")
)

// unknownKey is the code of some services, with status 404, for an access key that does not exist.
const unknownKey = "XAdminUserNotFound"

// code returns the code of the service in an error; "": the error is none of the service.
func code(err error) string {
	e, _ := errors.AsType[minio.ErrorResponse](err)
	return e.Code
}

// retryable reports whether a repeated request may succeed.
func retryable(err error) bool {
	if _, ended := errors.AsType[final](err); ended {
		return false
	}
	if e, ours := errors.AsType[minio.ErrorResponse](err); ours {
		return forNow(e)
	}
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	return !untrusted && !errors.Is(err, syscall.ENOSPC)
}

// forNow reports whether a service has refused a request that may succeed later.
func forNow(e minio.ErrorResponse) bool {
	return e.StatusCode >= http.StatusInternalServerError || e.StatusCode == http.StatusTooManyRequests || e.StatusCode == http.StatusRequestTimeout
}

// explain says what an error of the library means.
func (s *Store) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	e, ours := errors.AsType[minio.ErrorResponse](err)
	switch {
	case !ours:
		return s.unreachable(err)
	case e.Code == minio.NoSuchKey:
		return fmt.Errorf("%s/%s: %w", Scheme+s.bucket, e.Key, fs.ErrNotExist)
	case e.Code == minio.NoSuchBucket:
		return fmt.Errorf("%s%s at %s: %w; create it first", Scheme, s.bucket, s.endpoint, ErrNoBucket)
	case e.Code == minio.RequestTimeTooSkewed:
		return fmt.Errorf("%w to %s: the clock of this machine differs too much from that of %s", ErrDenied, s, s.endpoint)
	case e.StatusCode == http.StatusForbidden || e.StatusCode == http.StatusUnauthorized || e.Code == minio.InvalidAccessKeyID || e.Code == unknownKey:
		return fmt.Errorf("%w to %s: %s (%s)%s", ErrDenied, s, e.Error(), e.Code, request(e))
	}
	if forNow(e) && e.StatusCode != http.StatusInsufficientStorage {
		return fmt.Errorf("%w: %s, after up to %d tries: %w (%s)%s", ErrBusy, s.endpoint, s.tries, err, e.Code, request(e))
	}
	return fmt.Errorf("S3 endpoint %s: %w (%s)%s", s.endpoint, err, e.Code, request(e))
}

// request names a request for those who run the service.
func request(e minio.ErrorResponse) string {
	if e.RequestID == "" {
		return ""
	}
	return ", request " + e.RequestID
}

func (s *Store) unreachable(err error) error {
	if _, untrusted := errors.AsType[x509.UnknownAuthorityError](err); untrusted {
		return fmt.Errorf("%w: %s has a certificate of an unknown authority; name its file with --s3-ca-file: %w", ErrUnreachable, s.endpoint, err)
	}
	return fmt.Errorf("%w: %s, after up to %d tries: %w", ErrUnreachable, s.endpoint, s.tries, err)
}
