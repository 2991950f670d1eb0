package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	_ "embed"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
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
	packages := pynsqInstall(e)
	steps.Must(write(e.scratch, map[string]string{"jobs.py": string(pynsqProgram)}))
	authority := steps.Need(nodes.NewAuthority())
	steps.Must(authority.Issue(nodes.Identity(e.scratch), "127.0.0.1", authority))
	secrets := httptest.NewServer(http.HandlerFunc(authorize))
	defer secrets.Close()

	var all tapCount
	var errs []error
	for _, r := range []pynsqRun{
		{group: "open", data: "open"},
		{group: "auth", data: "auth", flags: []string{"--auth-http-address=" + secrets.Listener.Addr().String()}},
		{group: "auth", data: "access", access: true},
	} {
		errs = append(errs, steps.Run(func() { pynsqGroup(e, packages, r, &all) }))
	}
	return all.verdict(pynsqJobs, errors.Join(errs...), func() string { return "" })
}

// pynsqRun is a group of jobs, and the broker that they meet.
type pynsqRun struct {
	group, data string
	flags       []string // of the broker
	access      bool     // its access control is on, and the jobs' secret is a token
}

// pynsqGroup does the jobs of a group with a broker of their own, and counts them.
func pynsqGroup(e env, packages string, r pynsqRun, all *tapCount) {
	dir, data := e.scratch, filepath.Join(e.scratch, r.data)
	identity := nodes.Identity(dir)
	if r.access {
		e = withAccess(e, "auth*")
	}
	s := serveNSQD(e, data, append(r.flags,
		"--tls-cert="+identity.File("cert.pem"), "--tls-key="+identity.File("key.pem"))...)
	args := []string{"-W", "ignore", "jobs.py", r.group, "--tcp", tcpAddress, "--http", httpAddress, "--ca", identity.File("ca.pem")}
	if r.access {
		token, err := e.secret()
		if err != nil {
			steps.Must(errors.Join(err, s.Stop()))
		}
		args = append(args, "--secret", token)
	}
	var out bytes.Buffer
	cmd := command(e.ctx, dir, &out, "python3", args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1")
	runErr := cmd.Run()
	all.add(out.String())
	if err := errors.Join(runErr, s.Stop()); err != nil {
		steps.Fail("jobs %s, %s: %w\n%s\n%s", r.group, r.data, err, tail(out.Bytes()), s.LogEnd())
	}
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

// pynsqInstall returns the directory of the client and its dependencies.
func pynsqInstall(e env) (dir string) {
	dir = filepath.Join(e.cache, "packages")
	steps.During("pynsq cannot be installed", func() {
		packages{
			pins: map[string]string{"requirements.txt": string(pynsqRequirements)},
			need: needPrograms("Python 3 with pip", "python3"),
			get: func(e env) {
				fetch(e, e.cache, "python3", "-m", "pip", "install", "--quiet", "--no-input", "--upgrade",
					"--target", dir, "--require-hashes", "--requirement", "requirements.txt")
			},
		}.install(e)
	})
	return dir
}
