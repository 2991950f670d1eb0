package meta

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
)

func accessSample(t *testing.T) *State {
	t.Helper()
	var s State
	for i, c := range []access.Change{
		{Verb: access.CreateUser, User: "root", Certificates: []string{"CN=root"}, Rules: []access.Rule{{Right: access.Admin}}},
		{Verb: access.CreateToken, Token: &access.Token{ID: strings.Repeat("a", 16), User: "root", Hash: strings.Repeat("0", 64)}},
		{Verb: access.Enable},
	} {
		if r := ApplyAt(&s, uint64(i+1), 7, ChangeAccess{c}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return &s
}

func TestSnapshotContainsAccess(t *testing.T) {
	s := accessSample(t)
	whole := encode(t, s)
	back, err := DecodeSnapshot(bytes.NewReader(whole))
	if err != nil || !bytes.Equal(encode(t, back), whole) {
		t.Fatalf("%v", err)
	}
	if _, may := AccessOf(back).Check("root", access.Demand{Right: access.Manage, Topic: "t"}); !may || !AccessOf(back).On() {
		t.Errorf("%+v", AccessOf(back).Store())
	}
	body := whole[:len(whole)-commandTrailer]
	for name, change := range map[string][]byte{
		"a token of no user":      bytes.Replace(body, []byte(`"user":"root"`), []byte(`"user":"boot"`), 1),
		"on without an admin":     bytes.Replace(body, []byte(`"right":"admin"`), []byte(`"right":"read"`), 1),
		"a line that is not said": bytes.Replace(body, []byte(`"access":true`), []byte(`"access":false`), 1),
	} {
		if s, err := DecodeSnapshot(bytes.NewReader(sealed(change))); s != nil || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

// TestLongTextOfAnEventIsStoredUnchanged: a node that applied a command and one that read a snapshot
// have the same state.
func TestLongTextOfAnEventIsStoredUnchanged(t *testing.T) {
	s := accessSample(t)
	for i := range 4 { // the limit falls on each byte of a character
		c := access.Change{Verb: access.Grant, User: "root", Rules: []access.Rule{{Right: access.Read}}, By: strings.Repeat("x", i) + strings.Repeat("\U0001F511", 60)}
		if r := ApplyAt(s, s.Index()+1, 7, ChangeAccess{c}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	whole := encode(t, s)
	back, err := DecodeSnapshot(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if again := encode(t, back); !bytes.Equal(again, whole) {
		t.Errorf("read from a snapshot: %q\nwas applied: %q", JournalOf(back).Events(3)[0].What, JournalOf(s).Events(3)[0].What)
	}
}

func TestAccessStaysTheSameUntilItChanges(t *testing.T) {
	s := accessSample(t)
	was, kept := AccessOf(s), s.Snapshot()
	if s.Apply(10, PauseTopic{"t", true}); AccessOf(s) != was {
		t.Error("another command has changed it")
	}
	if r := s.Apply(11, ChangeAccess{access.Change{Verb: access.DeleteUser, User: "root"}}); !errors.Is(r.Err, failure.LastAdmin) || AccessOf(s) != was {
		t.Errorf("refused with %v", r.Err)
	}
	if r := s.Apply(12, ChangeAccess{access.Change{Verb: access.Disable}}); r.Err != nil || AccessOf(s) == was || AccessOf(kept) != was || !was.On() {
		t.Errorf("%v, or what was handed out has changed", r.Err)
	}
}

func TestAccessEventOmitsCredentials(t *testing.T) {
	events := JournalOf(accessSample(t)).Events(0)
	if len(events) != 3 {
		t.Fatalf("%d events", len(events))
	}
	if events[1].Object != "root" {
		t.Errorf("a token is about %q", events[1].Object)
	}
	for _, e := range events {
		if e.Kind != "access_changed" || strings.Contains(e.What, strings.Repeat("0", 64)) {
			t.Errorf("%+v", e)
		}
	}
	if want := "access control: create-user root, admin"; events[0].What != want || events[0].Object != "root" {
		t.Errorf("%+v, want %q", events[0], want)
	}
}

// The events tell which user, token or rule was removed, for removals by any operator.
func TestJournalKnowsRemovals(t *testing.T) {
	var s State
	apply := func(c access.Change) {
		t.Helper()
		if r := ApplyAt(&s, s.Index()+1, 1, ChangeAccess{c}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	rule := []access.Rule{{Right: access.Read}}
	for _, name := range []string{"ann", "bob"} {
		apply(access.Change{Verb: access.CreateUser, User: name, Rules: rule})
	}
	apply(access.Change{Verb: access.Revoke, User: "ann", Rules: rule, By: "root"})
	apply(access.Change{Verb: access.DeleteUser, User: "bob", By: "root"})
	apply(access.Change{Verb: access.DeleteUser, User: "ann"})
	for _, c := range []struct {
		change access.Change
		want   uint64
	}{
		{access.Change{Verb: access.DeleteUser, User: "bob", By: "ops"}, 4},
		{access.Change{Verb: access.Revoke, User: "bob", Rules: rule}, 4},
		{access.Change{Verb: access.DeleteUser, User: "ann"}, 5},
		{access.Change{Verb: access.DeleteUser, User: "bo"}, 0},
		{access.Change{Verb: access.DeleteUser, User: "bobs"}, 0},
		{access.Change{Verb: access.RevokeToken, ID: "bob1"}, 0},
	} {
		if got := JournalOf(&s).Took(c.change); got != c.want {
			t.Errorf("%v: taken at %d, want %d", c.change, got, c.want)
		}
	}
}
