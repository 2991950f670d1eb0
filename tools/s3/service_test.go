package s3

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	patience  = time.Minute
	accessKey = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" // of Amazon's documentation
	domain    = "s3.example.test"                          // resolved by nobody: requests for it go through the proxy
)

// service is the gateway, with a directory for each bucket, and a proxy in front of it.
type service struct {
	dir   string
	url   string // of the gateway itself
	proxy *httptest.Server
	slow  atomic.Int32 // of so many requests, the proxy answers one; 0: none, 1: all
	seen  atomic.Int32 // requests through the proxy
	hosts atomic.Int32 // of those, with the bucket in the host name
}

// started starts a program that listens on an address, and ends it with the test.
func started(t *testing.T, address string, cmd *exec.Cmd) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = out.Close()
		if text, err := os.ReadFile(log); t.Failed() && err == nil {
			t.Logf("%s:\n%s", filepath.Base(cmd.Path), text)
		}
	})
	for deadline := time.Now().Add(patience); ; {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen: %v", cmd.Path, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// free returns an address on which nobody listens, outside the range from which the system chooses the ports of
// connections: one of them could have it otherwise before the program listens there.
func free(t *testing.T) string {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer func() { _ = l.Close() }()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

func start(t *testing.T) *service {
	t.Helper()
	programs := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "github.com/versity/versitygw/cmd/versitygw").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := &service{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.dir, "backups"), 0o700); err != nil {
		t.Fatal(err)
	}
	address := free(t)
	s.url = "http://" + address
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "versitygw"), "--port", address, "--virtual-domain", domain, "--region", "eu-test-1", "--quiet", "posix", s.dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	started(t, address, cmd)
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }}
	s.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.seen.Add(1)
		if strings.HasPrefix(r.Host, "backups.") {
			s.hosts.Add(1)
		}
		if every := s.slow.Load(); every > 0 && n%every == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(s.proxy.Close)
	return s
}

// node is a brokerd, and how brokerctl is run with it.
type node struct {
	*testing.T
	address string
	env     []string
}

func startNode(t *testing.T, s *service) *node {
	t.Helper()
	n := &node{T: t, address: free(t)}
	cmd := exec.CommandContext(t.Context(), "../../bin/brokerd", "--data-dir", t.TempDir(), "--node-id", "n1", "--http-address", n.address,
		"--tcp-address", "127.0.0.1:0", "--lookup-address", "", "--cluster-address", "127.0.0.1:0")
	started(t, n.address, cmd)
	n.env = append(os.Environ(), "BROKERCTL_ADDR=http://"+n.address, "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey, "AWS_ENDPOINT_URL_S3="+s.url, "HTTP_PROXY="+s.proxy.URL)
	for deadline := time.Now().Add(patience); ; {
		cmd := exec.CommandContext(t.Context(), "../../bin/brokerctl", "check", "node", "-q")
		cmd.Env = n.env
		if cmd.Run() == nil {
			return n
		}
		if time.Now().After(deadline) {
			t.Fatal("the node is not ready")
		}
	}
}

// ctl runs brokerctl with further variables, wants an exit code, and returns what it prints.
func (n *node) ctl(want int, env []string, args ...string) string {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../bin/brokerctl", args...)
	cmd.Env = append(n.env[:len(n.env):len(n.env)], env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, _ := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != want {
		n.Errorf("%q: exit code %d, want %d\n%s%s", args, got, want, out, errs.String())
	}
	if strings.Contains(string(out)+errs.String(), secretKey) {
		n.Errorf("%q prints the secret", args)
	}
	return string(out) + errs.String()
}

// publish publishes messages of 1 KiB, numbered.
func (n *node) publish(topic string, from, end int) {
	n.Helper()
	file := filepath.Join(n.TempDir(), "lines")
	f, err := os.Create(file)
	if err != nil {
		n.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := from; i < end; i++ {
		_, _ = fmt.Fprintf(w, "%06d%s\n", i, strings.Repeat(string(rune('a'+i%26)), 1024))
	}
	if err := w.Flush(); err != nil {
		n.Fatal(err)
	}
	if err := f.Close(); err != nil {
		n.Fatal(err)
	}
	n.ctl(0, nil, "message", "pub", topic, "-f", file, "-q")
}

// copied returns how many messages a backup has copied, of how many.
func (n *node) copied(store string, env ...string) (copied, all int) {
	n.Helper()
	var made struct{ Copied, Messages int }
	if err := json.Unmarshal([]byte(n.ctl(0, env, "backup", "create", store, "--topics", "orders", "-q", "-o", "json")), &made); err != nil {
		n.Error(err)
	}
	return made.Copied, made.Messages
}

// TestBackupsInAServiceThatOthersMade makes backups, the second one with new messages only, deletes the first, and
// restores, in each style of addresses.
func TestBackupsInAServiceThatOthersMade(t *testing.T) {
	s := start(t)
	n := startNode(t, s)
	n.ctl(0, nil, "topic", "create", "orders")
	n.ctl(0, nil, "channel", "create", "orders/bill")
	n.publish("orders", 0, 25_000) // two full chunks
	hosts := []string{"AWS_ENDPOINT_URL_S3=http://" + domain}
	for _, x := range []struct {
		name string
		env  []string
		flag string
	}{
		{"path", nil, "--s3-path-style"},
		{"found", nil, ""},
		{"host", hosts, "--s3-path-style=false"},
		{"slow", hosts, "--s3-path-style=false"},
	} {
		t.Run(x.name, func(t *testing.T) {
			n := &node{t, n.address, n.env}
			store := "s3://backups/" + x.name
			args := func(verb string, more ...string) []string {
				all := append([]string{"backup", verb, store}, more...)
				if x.flag != "" {
					all = append(all, x.flag)
				}
				return all
			}
			if x.name == "slow" {
				s.slow.Store(3)
				defer s.slow.Store(0)
			}
			before := s.hosts.Load()
			n.ctl(0, x.env, args("create", "--topics", "orders")...)
			first := strings.Fields(n.ctl(0, x.env, args("list", "-o", "name")...))
			n.publish("orders", 25_000, 25_100)
			n.ctl(0, x.env, args("create", "--topics", "orders")...)
			if out := n.ctl(0, x.env, args("list")...); strings.Count(out, "complete") != 2 || len(first) != 1 {
				t.Fatalf("list: %q, %s", first, out)
			}
			n.ctl(0, x.env, args("verify")...)
			n.ctl(0, x.env, args("verify", "--backup", first[0])...)
			n.ctl(0, x.env, args("delete", first[0], "--yes")...)
			n.ctl(3, x.env, args("verify", "--backup", first[0])...)
			if out := n.ctl(0, x.env, args("prune", "--keep-last", "1", "--yes")...); !strings.Contains(out, "deleted 0 backups") {
				t.Errorf("prune: %s", out)
			}
			n.ctl(0, x.env, args("verify")...)
			n.ctl(0, x.env, args("restore", "--topic", "orders", "--as", x.name, "--dry-run")...)
			n.ctl(0, x.env, args("restore", "--topic", "orders", "--as", x.name)...)
			const depth = "go-template={{.depth}}"
			if was, is := n.ctl(0, nil, "channel", "describe", "orders/bill", "-o", depth), n.ctl(0, nil, "channel", "describe", x.name+"/bill", "-o", depth); was != is {
				t.Errorf("%s messages wait, %s when restored", was, is)
			}
			if x.env != nil && s.hosts.Load() == before {
				t.Error("no request had the bucket in the host name")
			}
		})
	}
	t.Run("incremental", func(t *testing.T) {
		n := &node{t, n.address, n.env}
		if copied, all := n.copied("s3://backups/again"); copied != all || all < 25_000 {
			t.Errorf("first: %d of %d copied", copied, all)
		}
		n.publish("orders", 0, 10)
		if copied, all := n.copied("s3://backups/again"); copied >= 10_000 || copied < 10 || all <= 25_000 {
			t.Errorf("second: %d of %d copied", copied, all)
		}
	})
}

// TestServicesThatRefuse checks exit codes and hints.
func TestServicesThatRefuse(t *testing.T) {
	s := start(t)
	n := startNode(t, s)
	n.publish("orders", 0, 10)
	n.copied("s3://backups/x")
	always := []string{"AWS_ENDPOINT_URL_S3=http://" + domain}
	for _, x := range []struct {
		what  string
		store string
		env   []string
		code  int
		says  string
	}{
		{"a wrong secret", "s3://backups/x", []string{"AWS_SECRET_ACCESS_KEY=wrong"}, 5, "S3 access denied"},
		{"an unknown key", "s3://backups/x", []string{"AWS_ACCESS_KEY_ID=nobody"}, 5, "S3 access denied"},
		{"no such bucket", "s3://missing/x", nil, 3, "bucket does not exist; create it first"},
		{"nobody there", "s3://backups/x", []string{"AWS_ENDPOINT_URL_S3=http://" + free(t)}, 6, "does not respond"},
		{"always busy", "s3://backups/x", always, 6, "SlowDown"},
	} {
		s.slow.Store(map[bool]int32{true: 1}[x.what == "always busy"])
		all := [][]string{{"create", x.store}, {"list", x.store}, {"verify", x.store}, {"restore", x.store, "--dry-run"}}
		if x.what == "always busy" {
			all = all[1:2] // it takes a quarter of a minute
		}
		for _, args := range all {
			if out := n.ctl(x.code, x.env, append([]string{"backup"}, args...)...); !strings.Contains(out, x.says) {
				t.Errorf("%s: %q: %s", x.what, args, out)
			}
		}
	}
	s.slow.Store(0)
	if out := n.ctl(0, nil, "backup", "list", "s3://backups/x"); strings.Contains(out, "incomplete") {
		t.Errorf("refused backups are listed: %s", out)
	}
}
