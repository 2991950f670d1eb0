package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "embed"
)

// The Python client, from PyPI. The package contains no tests. jobs.py, which is
// ours, uses all features of the client instead.
const pynsqJobs = 39 + 5 // the last: those with AUTH, again with access control on

var (
	// pynsqRequirements pins the client and all that it depends on.
	//
	//go:embed pynsq/requirements.txt
	pynsqRequirements []byte
	//go:embed pynsq/jobs.py
	pynsqProgram []byte
)

// pynsq runs the jobs that need no auth server, then the others with one.
func pynsq(e env) (string, error) {
	packages, err := pynsqInstall(e)
	if err != nil {
		return "", fmt.Errorf("pynsq cannot be installed: %w", err)
	}
	if err := write(e.scratch, map[string]string{"jobs.py": string(pynsqProgram)}); err != nil {
		return "", err
	}
	if err := writeCertificate(e.scratch); err != nil {
		return "", err
	}
	secrets := httptest.NewServer(http.HandlerFunc(authorize))
	defer secrets.Close()

	var all tapCount
	err = errors.Join(
		pynsqGroup(e, packages, pynsqRun{group: "open", data: "open"}, &all),
		pynsqGroup(e, packages, pynsqRun{group: "auth", data: "auth", flags: []string{"--auth-http-address=" + secrets.Listener.Addr().String()}}, &all),
		pynsqGroup(e, packages, pynsqRun{group: "auth", data: "access", access: true}, &all),
	)
	said := fmt.Sprintf("%d of %d passed", all.passed, pynsqJobs)
	if err == nil && (all.passed != pynsqJobs || len(all.bad) > 0) {
		err = errOtherCount
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, strings.Join(all.bad, "\n"))
	}
	return said, err
}

// pynsqRun is a group of jobs, and the broker that they meet.
type pynsqRun struct {
	group, data string
	flags       []string // of the broker
	access      bool     // its access control is on, and the jobs' secret is a token
}

// pynsqGroup does the jobs of a group with a broker of their own, and counts them.
func pynsqGroup(e env, packages string, r pynsqRun, all *tapCount) error {
	const tcp, http = "127.0.0.1:4150", "127.0.0.1:4151"
	dir, data := e.scratch, filepath.Join(e.scratch, r.data)
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	certificate := filepath.Join(dir, certificateFile)
	if r.access {
		var err error
		if e, err = withAccess(e, "auth*"); err != nil {
			return err
		}
	}
	s, err := serve(e, "nsqd", http, []string{tcp, http}, append(r.flags,
		"--tcp-address="+tcp, "--http-address="+http, "--data-path="+data,
		"--tls-cert="+certificate, "--tls-key="+filepath.Join(dir, keyFile))...)
	if err != nil {
		return err
	}
	args := []string{"-W", "ignore", "jobs.py", r.group, "--tcp", tcp, "--http", http, "--ca", certificate}
	if r.access {
		token, err := e.secret()
		if err != nil {
			_, stopErr := s.stop()
			return errors.Join(err, stopErr)
		}
		args = append(args, "--secret", token)
	}
	var out bytes.Buffer
	cmd := command(e.ctx, dir, &out, "python3", args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1")
	runErr := cmd.Run()
	all.add(out.String())
	log, stopErr := s.stop()
	if err := errors.Join(runErr, stopErr); err != nil {
		return fmt.Errorf("jobs %s, %s: %w\n%s\nthe broker's log ends:\n%s", r.group, r.data, err, tail(out.Bytes()), log)
	}
	return nil
}

// authorize is an auth server that knows one secret, for all topics but one.
func authorize(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("secret") != "sesame" {
		http.Error(w, "NOT_AUTHORIZED", http.StatusForbidden)
		return
	}
	_, _ = io.WriteString(w, `{"ttl": 3600, "identity": "ali", "identity_url": "", "authorizations": [`+
		`{"permissions": ["subscribe", "publish"], "topic": "^auth.*$", "channels": [".*"]}]}`) // the broker detects a missing answer
}

// The files of a certificate in the scratch directory.
const (
	certificateFile = "server.pem"
	keyFile         = "server.key"
)

// writeCertificate creates a self-signed certificate for this machine.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "conformance"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return write(dir, map[string]string{
		certificateFile: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		keyFile:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
	})
}

// pynsqInstall returns the directory of the client and its dependencies.
func pynsqInstall(e env) (string, error) {
	dir := filepath.Join(e.cache, "packages")
	p := packages{
		pins: map[string]string{"requirements.txt": string(pynsqRequirements)},
		need: needPrograms("Python 3 with pip", "python3"),
		get: func(e env) error {
			_, err := fetch(e, e.cache, "python3", "-m", "pip", "install", "--quiet", "--no-input", "--upgrade",
				"--target", dir, "--require-hashes", "--requirement", "requirements.txt")
			return err
		},
	}
	return dir, p.install(e)
}
