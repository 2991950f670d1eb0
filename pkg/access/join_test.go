package access_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
)

// joinToken returns a join token of n4, created at 100 and valid until 200, and the change that
// creates it.
func joinToken(t *testing.T) (text string, c access.Change) {
	t.Helper()
	text, stored, err := access.NewJoinToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stored.Node, stored.Created, stored.Expires = "n4", 100, 200
	return text, access.Change{Verb: access.CreateJoinToken, Join: &stored}
}

func prove(t *testing.T, text string, who access.Joiner) *access.JoinProof {
	t.Helper()
	p, err := who.Prove(text)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestJoinTokenAdmitsOneProcessOfOneNode(t *testing.T) {
	text, create := joinToken(t)
	d := apply(t, nil, create)
	n4 := access.Joiner{Cluster: "c1", Node: "n4", Address: "10.0.0.4:4152", Process: 7}
	other := func(change func(*access.Joiner)) access.Joiner {
		o := n4
		change(&o)
		return o
	}
	another, _ := joinToken(t)
	good := prove(t, text, n4)
	for _, test := range []struct {
		name  string
		proof *access.JoinProof
		who   access.Joiner
		now   int64
		want  string
	}{
		{"valid", good, n4, 199, ""},
		{"none", nil, n4, 150, "join token required"},
		{"expired", good, n4, 200, "join token has expired: "},
		{"of another node", prove(t, text, other(func(o *access.Joiner) { o.Node = "n5" })), other(func(o *access.Joiner) { o.Node = "n5" }), 150, "join token is for another node: "},
		{"unknown", prove(t, another, n4), n4, 150, "join token is not valid"},
		{"another key with its id", &access.JoinProof{ID: good.ID, Signature: prove(t, another, n4).Signature}, n4, 150, "join token is not valid"},
		{"without a signature", &access.JoinProof{ID: good.ID}, n4, 150, "join token is not valid"},
		{"signed for another cluster", prove(t, text, other(func(o *access.Joiner) { o.Cluster = "c2" })), n4, 150, "join token is not valid"},
		{"signed for another address", good, other(func(o *access.Joiner) { o.Address = "10.0.0.9:4152" }), 150, "join token is not valid"},
		{"signed for another process", good, other(func(o *access.Joiner) { o.Process = 8 }), 150, "join token is not valid"},
		// What is quoted cannot be shifted between the parts.
		{"signed for other parts", prove(t, text, other(func(o *access.Joiner) { o.Cluster, o.Address = "c1\"\n\"n4", "" })), n4, 150, "join token is not valid"},
	} {
		use, err := d.Redeem(test.proof, test.who, test.now)
		switch {
		case test.want == "" && (err != nil || use == nil):
			t.Errorf("%s: %v, %v", test.name, use, err)
		case test.want != "" && (use != nil || err == nil || !strings.HasPrefix(err.Error(), test.want)):
			t.Errorf("%s: %v, %v", test.name, use, err)
		}
	}
	use, err := d.Redeem(good, n4, 150)
	if err != nil {
		t.Fatal(err)
	}
	d = apply(t, d, *use, *use) // it may arrive twice
	if again, err := d.Redeem(good, n4, 900); again != nil || err != nil {
		t.Errorf("the process that has used it asks again: %v, %v", again, err)
	}
	next := other(func(o *access.Joiner) { o.Process = 8 })
	if again, err := d.Redeem(prove(t, text, next), next, 160); again != nil || !errors.Is(err, access.ErrJoinTokenUsed) {
		t.Errorf("the next process: %v, %v", again, err)
	}
	if used := d.JoinTokens()[0]; used.Used != 150 || used.Process != 7 {
		t.Errorf("stored: %+v", used)
	}
}

// TestTwoProcessesUseAJoinTokenAtOnce: both were found to be valid before one is recorded.
func TestTwoProcessesUseAJoinTokenAtOnce(t *testing.T) {
	text, create := joinToken(t)
	d := apply(t, nil, create)
	var uses []*access.Change
	for process := range uint64(2) {
		who := access.Joiner{Node: "n4", Process: process + 1}
		use, err := d.Redeem(prove(t, text, who), who, 150)
		if err != nil {
			t.Fatal(err)
		}
		uses = append(uses, use)
	}
	d = apply(t, d, *uses[0])
	if _, err := d.Apply(*uses[1]); !errors.Is(err, access.ErrJoinTokenUsed) {
		t.Errorf("got %v", err)
	}
	if _, err := apply(t, d, access.Change{Verb: access.RevokeJoinToken, ID: create.Join.ID}).Apply(*uses[0]); !errors.Is(err, failure.TokenNotFound) {
		t.Errorf("a revoked one: got %v", err)
	}
}

func TestJoinTokensAreKeptAndBounded(t *testing.T) {
	_, first := joinToken(t)
	d := apply(t, nil, first, access.Change{Verb: access.RequireJoinTokens})
	if _, err := d.Apply(first); !errors.Is(err, failure.TokenExists) {
		t.Errorf("a second one with its id: %v", err)
	}
	text, err := json.Marshal(d.Store())
	if err != nil {
		t.Fatal(err)
	}
	var stored access.Stored
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	if back, err := access.Restore(stored); err != nil || !reflect.DeepEqual(back.Store(), d.Store()) || !back.JoinTokensRequired() {
		t.Errorf("restored %+v, %v", back.Store(), err)
	}
	for {
		_, c := joinToken(t)
		n, err := d.Apply(c)
		if errors.Is(err, failure.AccessLimit) {
			break
		}
		if err != nil || len(d.JoinTokens()) > 1000 {
			t.Fatal(len(d.JoinTokens()), err)
		}
		d = n
	}
	_, late := joinToken(t)
	late.Join.Created, late.Join.Expires = 200, 300 // the others have expired
	if d = apply(t, d, late); len(d.JoinTokens()) != 1 {
		t.Errorf("%d tokens are left", len(d.JoinTokens()))
	}
	if d = apply(t, d, access.Change{Verb: access.WaiveJoinTokens}); d.JoinTokensRequired() {
		t.Error("still required")
	}
	if (*access.Directory)(nil).JoinTokensRequired() || len((*access.Directory)(nil).JoinTokens()) != 0 {
		t.Error("a cluster without users requires join tokens")
	}
}

func TestInvalidJoinTokensAreRefused(t *testing.T) {
	_, good := joinToken(t)
	with := func(change func(*access.JoinToken)) *access.JoinToken {
		one := *good.Join
		change(&one)
		return &one
	}
	for name, c := range map[string]access.Change{
		"none":           {Verb: access.CreateJoinToken},
		"no node":        {Verb: access.CreateJoinToken, Join: with(func(j *access.JoinToken) { j.Node = "" })},
		"no end":         {Verb: access.CreateJoinToken, Join: with(func(j *access.JoinToken) { j.Expires = 0 })},
		"no key":         {Verb: access.CreateJoinToken, Join: with(func(j *access.JoinToken) { j.Key = "" })},
		"used":           {Verb: access.CreateJoinToken, Join: with(func(j *access.JoinToken) { j.Used, j.Process = 120, 1 })},
		"use of none":    {Verb: access.UseJoinToken},
		"use by nobody":  {Verb: access.UseJoinToken, Join: with(func(j *access.JoinToken) { j.Used = 120 })},
		"use at no time": {Verb: access.UseJoinToken, Join: with(func(j *access.JoinToken) { j.Process = 1 })},
	} {
		if _, err := (*access.Directory)(nil).Apply(c); !errors.Is(err, failure.InvalidAccess) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := access.Restore(access.Stored{JoinTokens: []*access.JoinToken{nil}}); err == nil {
		t.Error("a nil token was restored")
	}
	token, _, err := access.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		token:                        "it is a token of a user",
		"brj_0123456789abcdef_short": "not a join token",
		"brj_0123456789abcdef_" + strings.Repeat("!", 43): "not a join token",
		"secret words": "not a join token",
	} {
		if _, err := (access.Joiner{}).Prove(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), text[5:]) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestJoinTokenSecretsAreRedacted(t *testing.T) {
	text, create := joinToken(t)
	for _, cut := range []string{text, text[:30]} {
		if got := access.Redact("a " + cut); got != "a brj_"+create.Join.ID+"_..." {
			t.Errorf("got %s", got)
		}
	}
	if got := create.String(); strings.Contains(got, create.Join.Key) || got != "create-join-token "+create.Join.ID+" for node n4" {
		t.Errorf("got %s", got)
	}
}
