package s3store

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Scheme begins the location of a store in a bucket: s3://BUCKET/PREFIX.
const Scheme = "s3://"

// amazon is the endpoint without another one.
const amazon = "https://s3.amazonaws.com"

// Options describe how to reach a bucket. Environment variables are those of Amazon's programs.
type Options struct {
	Endpoint  string // URL; "": AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's
	Region    string // "": AWS_REGION, AWS_DEFAULT_REGION, or that of the bucket
	PathStyle *bool  // the bucket is in the path of requests, not in the host name; nil: as the endpoint needs it
	CAFile    string // certificates of authorities to trust, PEM; "": AWS_CA_BUNDLE, or those of the system
	UserAgent string // name/version
	Getenv    func(string) string

	stall time.Duration // how long nothing may move on a connection; 0: stallTimeout
	tries int           // 0: maxTries
	part  int64         // bytes; 0: partBytes
}

// Open returns the store at a location, s3://BUCKET or s3://BUCKET/PREFIX. It sends no request. The
// errors are errors of the command line or of the environment.
func Open(location string, o Options) (*Store, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(location, Scheme), "/")
	if err := s3utils.CheckValidBucketName(bucket); err != nil || !strings.HasPrefix(location, Scheme) {
		return nil, fmt.Errorf("%q is not s3://BUCKET or s3://BUCKET/PREFIX with a valid name of a bucket", location)
	}
	prefix = strings.Trim(prefix, "/")
	if strings.Contains("/"+prefix+"/", "//") && prefix != "" || strings.ContainsAny(prefix, "\x00\n\r") {
		return nil, fmt.Errorf("%q has an invalid prefix", location)
	}
	endpoint, err := o.endpoint()
	if err != nil {
		return nil, err
	}
	secret, err := o.credentials()
	if err != nil {
		return nil, err
	}
	var roots *x509.CertPool
	if file := cmp.Or(o.CAFile, o.Getenv("AWS_CA_BUNDLE")); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("certificates of the S3 endpoint: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no certificate in PEM", file)
		}
	}
	lookup := minio.BucketLookupAuto
	if o.PathStyle != nil {
		lookup = map[bool]minio.BucketLookupType{true: minio.BucketLookupPath, false: minio.BucketLookupDNS}[*o.PathStyle]
	}
	s := &Store{
		bucket: bucket, prefix: prefix, endpoint: endpoint.Scheme + "://" + endpoint.Host,
		tries: cmp.Or(o.tries, maxTries), part: cmp.Or(o.part, partBytes), region: cmp.Or(o.Region, o.Getenv("AWS_REGION"), o.Getenv("AWS_DEFAULT_REGION")),
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: secret, Secure: endpoint.Scheme == "https", Region: s.region, BucketLookup: lookup, MaxRetries: s.tries,
		Transport: transport(cmp.Or(o.stall, stallTimeout), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}),
	})
	if err != nil {
		return nil, fmt.Errorf("S3 endpoint %s: %w", s.endpoint, err)
	}
	if name, version, ok := strings.Cut(o.UserAgent, "/"); ok {
		client.SetAppInfo(name, version)
	}
	s.core = minio.Core{Client: client}
	return s, nil
}

func (o *Options) endpoint() (*url.URL, error) {
	text := cmp.Or(o.Endpoint, o.Getenv("AWS_ENDPOINT_URL_S3"), o.Getenv("AWS_ENDPOINT_URL"), amazon)
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("S3 endpoint is not a URL https://HOST[:PORT] or http://HOST[:PORT] without path and credentials")
	}
	return u, nil
}

// errNoCredentials refuses an access without a key.
var errNoCredentials = errors.New("no S3 credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them, or a credential_process, to a profile of ~/.aws/credentials or ~/.aws/config, or of the file AWS_SHARED_CREDENTIALS_FILE")

// ofProgram reports whether an error is that of a program that could not be run, or failed. Such an
// error does not quote what the program prints.
func ofProgram(err error) bool {
	path, is := errors.AsType[*os.PathError](err)
	return errors.As(err, new(*exec.ExitError)) || errors.As(err, new(*exec.Error)) || is && path.Op == "fork/exec"
}

func (o *Options) credentials() (*credentials.Credentials, error) {
	id, secret := o.Getenv("AWS_ACCESS_KEY_ID"), o.Getenv("AWS_SECRET_ACCESS_KEY")
	switch {
	case id != "" && secret != "":
		return credentials.NewStaticV4(id, secret, o.Getenv("AWS_SESSION_TOKEN")), nil
	case id != "" || secret != "":
		return nil, errors.New("only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set")
	}
	file := o.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	c := credentials.NewFileAWSCredentials(file, o.Getenv("AWS_PROFILE"))
	profile := cmp.Or(o.Getenv("AWS_PROFILE"), "default")
	switch v, err := c.GetWithContext(nil); {
	case ofProgram(err):
		return nil, fmt.Errorf("S3 credentials: credential_process of profile %q failed: %w", profile, err)
	case errors.Is(err, os.ErrNotExist) && file == "":
		return nil, errNoCredentials
	case errors.As(err, new(*os.PathError)):
		return nil, fmt.Errorf("S3 credentials: %w", err)
	case err != nil: // it may quote the secret
		return nil, fmt.Errorf("S3 credentials: cannot use profile %q of %s: check that it exists, the form of its lines, and what its credential_process prints", profile, cmp.Or(file, "~/.aws/credentials and ~/.aws/config"))
	case v.AccessKeyID == "" || v.SecretAccessKey == "":
		return nil, errNoCredentials
	}
	return c, nil
}
