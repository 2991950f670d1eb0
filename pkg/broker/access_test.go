package broker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

// TestAccessChangeIsConfirmedByAllNodes: a node that has not applied a change still permits what it takes away. The
// caller learns which node that is.
// TestAccessIsNotEnabledWhileTheClusterPortIsOpen: a process that joins as a node may do everything.
func TestAccessIsNotEnabledWhileTheClusterPortIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1")
		if _, err := l.store.Propose(t.Context(), meta.FinalizeUpgrade{Level: level.Supported().Max}); err != nil {
			t.Fatal(err)
		}
		open := true
		a := &operate.Access{Node: l.at("n1").Node, Certificates: true, Open: func() bool { return open }}
		user := access.Change{Verb: access.CreateUser, User: "ops", Certificates: []string{"ops"}, Rules: []access.Rule{{Right: access.Admin}}}
		if err := a.Change(t.Context(), user); err != nil { // of users, all changes are possible
			t.Fatal(err)
		}
		enable := access.Change{Verb: access.Enable}
		if err := a.Change(t.Context(), enable); !errors.Is(err, failure.ClusterPortOpen) || !strings.Contains(err.Error(), "umask 077") || a.Directory().On() {
			t.Errorf("with a configured secret: %v", err)
		}
		if _, err := a.ClosePort(); !errors.Is(err, failure.ClusterPortOpen) {
			t.Errorf("closed without a way to: %v", err)
		}
		a.NewSecret = func() (string, error) { open = false; return "file", nil }
		if err := a.Change(t.Context(), enable); !errors.Is(err, failure.ClusterPortOpen) || !strings.Contains(err.Error(), "brokerctl access enable --new-cluster-secret") || a.Directory().On() {
			t.Errorf("with a secret of its own: %v", err)
		}
		if file, err := a.ClosePort(); err != nil || file != "file" || a.PortOpen() {
			t.Errorf("closed: %q, %v", file, err)
		}
		a.NewSecret = nil
		if file, err := a.ClosePort(); err != nil || file != "" {
			t.Errorf("closed again: %q, %v", file, err)
		}
		if err := a.Change(t.Context(), enable); err != nil || !a.Directory().On() {
			t.Errorf("with a closed port: %v", err)
		}
	})
}

func TestAccessChangeIsConfirmedByAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		if _, err := l.store.Propose(t.Context(), meta.FinalizeUpgrade{Level: level.Supported().Max}); err != nil {
			t.Fatal(err)
		}
		a := &operate.Access{Node: l.at("n1").Node, Certificates: true}
		change := func(c access.Change) error { return a.Change(t.Context(), c) }
		l.hosts["n2"].away.Store(true)
		gives := access.Change{Verb: access.CreateUser, User: "ops", Certificates: []string{"ops"}, Rules: []access.Rule{{Right: access.Admin}}}
		if err := change(gives); err != nil {
			t.Errorf("a new user may be unknown to a node for a moment: %v", err)
		}
		enable := access.Change{Verb: access.Enable}
		err := change(enable)
		if failure.Of(err) != failure.AccessUnconfirmed || fate.Of(err) != fate.Uncertain || !strings.HasSuffix(err.Error(), "not by n2") || !a.Directory().On() {
			t.Errorf("enabled, but not at one node: %v", err)
		}
		time.AfterFunc(time.Second, func() { l.hosts["n2"].away.Store(false) })
		if err := change(enable); err != nil {
			t.Errorf("enabled at all nodes, one of which could not be asked at first: %v", err)
		}
		l.crash("n3") // and no node has noticed
		if err := change(enable); !errors.Is(err, failure.AccessUnconfirmed) {
			t.Errorf("a node that does not answer: %v", err)
		}
		time.AfterFunc(time.Second, func() { l.failOver("n3") })
		if err := change(enable); err != nil {
			t.Errorf("a node that is found to be down meanwhile: %v", err)
		}
		if err := change(enable); err != nil {
			t.Errorf("a node that is down: %v", err)
		}
		other := access.Change{Verb: access.CreateUser, User: "other", Rules: []access.Rule{{Right: access.Read}}}
		if err := change(other); err != nil {
			t.Fatal(err)
		}
		for _, takes := range []access.Change{{Verb: access.Revoke, User: "other", Rules: other.Rules}, {Verb: access.DeleteUser, User: "other"}} {
			l.hosts["n2"].away.Store(true)
			for range 2 { // the repetition finds nothing to do, and says no less
				if err := change(takes); !errors.Is(err, failure.AccessUnconfirmed) || !strings.HasSuffix(err.Error(), "by n2") {
					t.Errorf("%v, not at one node: %v", takes, err)
				}
			}
			missing := access.Change{Verb: takes.Verb, User: takes.User + "s", Rules: takes.Rules}
			if err := change(missing); !errors.Is(err, failure.UserNotFound) || errors.Is(err, failure.AccessUnconfirmed) {
				t.Errorf("a user that never was: %v", err)
			}
			l.hosts["n2"].away.Store(false)
			if err := change(takes); err == nil || errors.Is(err, failure.AccessUnconfirmed) || !strings.Contains(err.Error(), "have applied its removal") {
				t.Errorf("%v, at all nodes: %v", takes, err)
			}
		}
	})
}
