package node

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/access"
)

// Writing or removing the first administrator's file is retried after a failure, even if nothing
// changes any more.
func TestFirstAdministratorFileIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admin, err := (*access.Directory)(nil).Apply(access.Change{
			Verb: access.CreateUser, User: "ops", Rules: []access.Rule{{Right: access.Admin}}, Certificates: []string{"ops.example"},
		})
		if err != nil {
			t.Fatal(err)
		}
		var d *access.Directory
		c := &Config{FirstAdminFile: filepath.Join(t.TempDir(), FirstAdminFile), Log: slog.New(slog.DiscardHandler)}
		c.Options.TLS.ClientAuthPolicy = "require-verify"
		f := newFirstAdmin(c, func() *access.Directory { return d })
		if err := f.refresh(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		changed := make(chan struct{})
		go f.run(ctx, func() <-chan struct{} { return changed })
		synctest.Wait()
		// A directory that is not empty cannot be removed.
		if err := os.Remove(c.FirstAdminFile); err != nil {
			t.Fatal(err)
		}
		inside := filepath.Join(c.FirstAdminFile, "inside")
		if err := os.MkdirAll(inside, 0o700); err != nil {
			t.Fatal(err)
		}
		d = admin
		was := changed
		changed = make(chan struct{})
		close(was)
		synctest.Wait()
		if _, err := os.Stat(c.FirstAdminFile); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(inside); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * firstAdminRetry)
		synctest.Wait()
		if _, err := os.Stat(c.FirstAdminFile); !os.IsNotExist(err) {
			t.Errorf("the file is there still: %v", err)
		}
	})
}

// A node on a disk without a free byte starts, since consuming frees space. Its file is written later. Once it exited.
func TestFirstAdministratorFileDoesNotPreventStart(t *testing.T) {
	var said strings.Builder
	c := testNode(t)
	c.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c.FirstAdminFile = filepath.Join(t.TempDir(), "absent", FirstAdminFile) // cannot be written
	n, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	if !strings.Contains(said.String(), "until then no first administrator can be created") {
		t.Errorf("the log says %q", said.String())
	}
	if err := os.Mkdir(filepath.Dir(c.FirstAdminFile), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { n.first.run(ctx, n.member.Store().Changed); close(done) }()
	for n.first.secret.Load() == nil {
		runtime.Gosched()
	}
	cancel()
	<-done
	if text, err := os.ReadFile(c.FirstAdminFile); err != nil || !n.first.is(strings.TrimSpace(string(text))) {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// An administrator whose credential is a client certificate does not count on a node that verifies
// none.
func TestUnverifiedCertificateIsNoAdministrator(t *testing.T) {
	d, err := (*access.Directory)(nil).Apply(access.Change{
		Verb: access.CreateUser, User: "ops", Rules: []access.Rule{{Right: access.Admin}}, Certificates: []string{"ops.example"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[string]bool{"": true, "require": true, "require-verify": false} {
		f := newFirstAdmin(&Config{Options: config.Options{TLS: config.TLS{ClientAuthPolicy: policy}}}, func() *access.Directory { return d })
		if f.wanted() != want {
			t.Errorf("tls-client-auth-policy %q: a secret is wanted: %v", policy, f.wanted())
		}
	}
}
