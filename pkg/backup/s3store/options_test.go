package s3store

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writePEM(file string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

func TestCommandLineErrorsAreFoundBeforeRequests(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	file := filepath.Join(home, "credentials")
	check(t, os.WriteFile(file, []byte("[default]\naws_access_key_id = a\naws_secret_access_key = b\n[half]\naws_access_key_id = a\n[empty]\n"), 0o600))
	bare := filepath.Join(home, "bare")
	check(t, os.WriteFile(bare, []byte("[default]\naws_access_key_id = a\naws_secret_access_key secret@key\n"), 0o600))
	programs := filepath.Join(home, "programs")
	check(t, os.WriteFile(programs, []byte("[default]\ncredential_process = /bin/echo {\"Version\":1,\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\"}\n"+
		"[fails]\ncredential_process = /bin/sh -c false\n[missing]\ncredential_process = /none/program --role x\n[unknown]\ncredential_process = no-such-program x\n"+
		"[babbles]\ncredential_process = /bin/echo secret@key\n"), 0o600))
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
	for _, c := range []struct {
		location, endpoint string
		env                map[string]string
		says               string // "": it is right
	}{
		{"s3://bucket", "", keys, ""},
		{"s3://bucket/a/b/", "storage.example.com:9000", keys, ""},
		{"s3://bucket/a", "http://[::1]:9000/", keys, ""},
		{"s3://", "", keys, "valid name of a bucket"},
		{"s3:///a", "", keys, "valid name of a bucket"},
		{"s3://Bucket_", "", keys, "valid name of a bucket"},
		{"s3://bucket/a//b", "", keys, "invalid prefix"},
		{"bucket", "", keys, "is not s3://BUCKET"},
		{"s3://bucket", "ftp://host", keys, "S3 endpoint is not a URL"},
		{"s3://bucket", "https://user:secret@host", keys, "S3 endpoint is not a URL"},
		{"s3://bucket", "https://host/path", keys, "S3 endpoint is not a URL"},
		{"s3://bucket", "", nil, "no S3 credentials"},
		{"s3://bucket", "", map[string]string{"AWS_ACCESS_KEY_ID": "a"}, "only one of"},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file}, ""},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "half"}, `profile "half"`},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": bare}, "the form of its lines"},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "empty"}, "no S3 credentials"},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "none"}, "none"},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file + "x"}, "no such file"},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": programs}, ""},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": programs, "AWS_PROFILE": "fails"}, `credential_process of profile "fails" failed: exit status 1`},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": programs, "AWS_PROFILE": "missing"}, "credential_process of profile"},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": programs, "AWS_PROFILE": "unknown"}, "credential_process of profile"},
		{"s3://bucket", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": programs, "AWS_PROFILE": "babbles"}, "what its credential_process prints"},
	} {
		_, err := Open(c.location, Options{Endpoint: c.endpoint, Getenv: func(n string) string { return c.env[n] }})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("%+v: the secret is in the error", c)
		}
	}
}

// TestProfileOfTheHomeDirectory: ~/.aws/config is enough, and a program that is not there is not
// reported as missing credentials.
func TestProfileOfTheHomeDirectory(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	check(t, os.Mkdir(filepath.Join(home, ".aws"), 0o700))
	check(t, os.WriteFile(filepath.Join(home, ".aws", "config"), []byte("[profile backup]\naws_access_key_id = a\naws_secret_access_key = b\n[profile gone]\ncredential_process = /none/program x\n"), 0o600))
	for profile, says := range map[string]string{"backup": "", "gone": `credential_process of profile "gone" failed`} {
		_, err := Open("s3://bucket", Options{Getenv: func(n string) string { return map[string]string{"AWS_PROFILE": profile}[n] }})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", profile, err)
		}
	}
}
