package formation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// votes reports whether a node has a vote, as known by the leader.
func (w *world) votes(name string) bool {
	l := w.leader()
	if l == nil {
		return false
	}
	m, _ := l.open().Members().Configuration().Find(meta.NodeID(name))
	return m.Voter
}

func (w *world) listed() string {
	ids := []string{}
	for _, u := range UnreachedBy(w.leader().node) {
		ids = append(ids, string(u.Node))
	}
	return strings.Join(ids, " ")
}

// A node that reached the leader, but could not be reached, got a vote at its own word: a cluster of
// one node stopped for good.
func TestUnreachableJoinerStopsNoCluster(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		w.cut("", "n2", true)
		p := w.start("n2")
		w.sleep(time.Minute)
		if got := w.members(); !slices.Equal(got, []string{"n1", "n2"}) || w.votes("n2") || w.listed() != "n2" {
			t.Fatalf("members %v, not reached %q", got, w.listed())
		}
		u := UnreachedBy(w.leader().node)[0]
		if u.Address != "n2" || u.Until.Sub(u.Since) != unansweredFor || u.Why == "" {
			t.Errorf("%+v", u)
		}
		err := p.node.ensureMember(t.Context(), p.node.Store(), false)
		if !errors.Is(err, errUnanswered) || !strings.Contains(err.Error(), "n2 at n2") {
			t.Errorf("the node learns: %v", err)
		}
		w.propose("n1")
		if err := w.kill("n1"); err != nil {
			t.Fatal(err)
		}
		w.start("n1")
		w.await("n1 leads", func() bool { return w.leader() != nil })
		w.propose("n1")
		w.sleep(unansweredFor + time.Minute)
		if got := w.members(); !slices.Equal(got, []string{"n1"}) || w.listed() != "" {
			t.Errorf("members after a while: %v, not reached %q", got, w.listed())
		}
		<-p.done
		if err := w.kill("n2"); !errors.Is(err, failure.Removed) {
			t.Errorf("the node: %v", err)
		}
	})
}

func TestJoinerGetsItsVoteOnceItIsReached(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		w.cut("", "n2", true)
		w.start("n2")
		w.sleep(30 * time.Second)
		w.cut("", "n2", false)
		reached := time.Now()
		w.formed(2, 2)
		if took := time.Since(reached); took < stableFor || took > stableFor+10*time.Second {
			t.Errorf("promoted %v after it was reached", took)
		}
		if w.listed() != "" {
			t.Errorf("not reached: %s", w.listed())
		}
	})
}

// TestJoinerStartedWithItsRightAddress: the one of its first start could not be reached.
func TestJoinerStartedWithItsRightAddress(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		w.cut("", "wrong", true)
		w.startAt("n2", "wrong", w.dir+"/n2")
		w.await("n2 is a member", func() bool { return len(w.members()) == 2 })
		w.sleep(5 * time.Second)
		if err := w.kill("wrong"); err != nil {
			t.Fatal(err)
		}
		w.cut("", "worse", true)
		w.startAt("n2", "worse", w.dir+"/n2")
		w.sleep(5 * time.Second)
		if m, _ := w.leader().open().Members().Configuration().Find("n2"); m.Address != "wrong" {
			t.Errorf("moved to an address at which it does not answer: %+v", m)
		}
		if err := w.kill("worse"); !strings.Contains(err.Error(), errUnanswered.Error()) {
			t.Errorf("it waits for %v", err)
		}
		w.start("n2")
		w.formed(2, 2)
	})
}

// TestLearnerThatStopsAnswering begins its time of answers again.
func TestLearnerThatStopsAnswering(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		w.start("n2")
		for range 10 {
			w.sleep(stableFor - time.Second)
			w.cut("n1", "n2", true)
			w.sleep(time.Second)
			w.cut("n1", "n2", false)
		}
		if len(w.members()) != 2 || w.votes("n2") {
			t.Fatalf("members %v", w.members())
		}
		w.formed(2, 2)
	})
}

// TestNodeReachableFromSomeMembersOnly: it counts whom the leader reaches.
func TestNodeReachableFromSomeMembersOnly(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		w.formed(3, 3)
		leader := string(w.leader().id)
		w.cut(leader, "n4", true)
		w.start("n4")
		w.sleep(time.Minute)
		if string(w.leader().id) != leader || w.votes("n4") || w.listed() != "n4" {
			t.Fatalf("leader %s, not reached %q", w.leader().id, w.listed())
		}
		if err := w.kill(leader); err != nil { // the next leader reaches it
			t.Fatal(err)
		}
		w.await("n4 has a vote", func() bool { return w.votes("n4") })
		w.start(leader)
		w.formed(4, 4)
	})
}

// TestUnansweredMembersAreLimited: a stranger that may join could add names without end.
func TestUnansweredMembersAreLimited(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		n := w.process("n1").node
		join := func(i int) error {
			who := identity{meta.NodeID(fmt.Sprint("ghost", i)), fmt.Sprint("nowhere", i), 42}
			return n.letIn(t.Context(), who.Node, request{Kind: askJoin, From: who, Fresh: true, Levels: level.Supported()})
		}
		for i := range maxUnanswered {
			if err := join(i); err != nil {
				t.Fatal(i, err)
			}
		}
		if err := join(maxUnanswered); !errors.Is(err, errManyUnanswered) || final(err) {
			t.Errorf("one more: %v", err)
		}
		if c := w.leader().open().Members().Configuration(); len(c.Members) != 1+maxUnanswered || len(c.Voters()) != 1 {
			t.Errorf("%+v", c)
		}
		w.sleep(unansweredFor + time.Minute)
		w.start("n2")
		w.formed(2, 2)
	})
}

// handled sends a request to a node as if another node had sent it.
func (w *world) handled(to string, from meta.NodeID, r request) error {
	w.t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := w.process(to).node.Handle(w.t.Context(), from, text)
	if err != nil {
		return err
	}
	a, err := decode[answer](out)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.err()
}

// TestNodeAsksForItselfAlone: who may reach a member, with any certificate of the cluster's CA, added
// voters until there was no majority, and moved members or took their votes in their names.
func TestNodeAsksForItselfAlone(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		id := w.formed(3, 3)
		leader, n2 := string(w.leader().id), w.process("n2").node.self
		if leader == "n2" {
			n2 = w.process("n3").node.self
		}
		before := w.leader().open().Members().Configuration()
		elsewhere := identity{n2.Node, "elsewhere", n2.Session}
		ghost := identity{"ghost", "nowhere", 42}
		relayed := func(r request) request { r.Relayed = true; return r }
		for _, test := range []struct {
			name string
			from meta.NodeID
			r    request
			want error
		}{
			{"a ghost by a stranger", "alice", request{Kind: askJoin, From: ghost, Fresh: true}, ErrNotSender},
			{"a ghost by a member", n2.Node, request{Kind: askJoin, From: ghost, Fresh: true}, ErrNotSender},
			{"a ghost relayed by a stranger", "alice", relayed(request{Kind: askJoin, From: ghost, Fresh: true}), ErrNotSender},
			{"a move by a stranger", "alice", request{Kind: askJoin, From: elsewhere}, ErrNotSender},
			{"a move by another member", meta.NodeID(leader), request{Kind: askJoin, From: elsewhere}, ErrNotSender},
			{"a move relayed by a member", meta.NodeID(leader), relayed(request{Kind: askJoin, From: elsewhere}), errUnanswered},
			{"a move by itself, to where it does not answer", n2.Node, request{Kind: askJoin, From: elsewhere}, errUnanswered},
			{"a vote taken by a stranger", "alice", request{Kind: askJoin, From: n2, Fresh: true}, ErrNotSender},
			{"a vote taken by a member", meta.NodeID(leader), relayed(request{Kind: askJoin, From: n2, Fresh: true}), errUnanswered},
			{"a promise in another name", "alice", request{Kind: askPromise, From: ghost}, ErrNotSender},
			{"a bond in another name", "alice", relayed(request{Kind: askBond, From: ghost}), ErrNotSender},
			{"who", "alice", request{Kind: askWho, From: ghost}, nil},
		} {
			test.r.Cluster, test.r.Levels = id, level.Supported()
			if err := w.handled(leader, test.from, test.r); !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			if after := w.leader().open().Members().Configuration(); !slices.Equal(after.Members, before.Members) {
				t.Fatalf("%s: %+v", test.name, after)
			}
		}
		// A node without a cluster has no members that may relay.
		w.join, w.expect = []string{"n9"}, 0
		w.start("n8")
		if err := w.handled("n8", "n1", relayed(request{Kind: askJoin, From: ghost})); !errors.Is(err, ErrNotSender) {
			t.Errorf("a node without a cluster: %v", err)
		}
		w.kill("n8")
	})
}

// TestVoteOfANodeThatIsDownStays: only its own process, where the leader reaches it, gives it up.
func TestVoteOfANodeThatIsDownStays(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		id := w.formed(3, 3)
		leader := string(w.leader().id)
		gone := "n2"
		if leader == gone {
			gone = "n3"
		}
		was := w.process(gone).node.self
		if err := w.kill(gone); err != nil {
			t.Fatal(err)
		}
		for _, r := range []request{
			{Kind: askJoin, From: was, Fresh: true},
			{Kind: askJoin, From: identity{was.Node, "nowhere", 42}, Fresh: true},
			{Kind: askJoin, From: identity{was.Node, "nowhere", 42}},
		} {
			r.Cluster, r.Levels = id, level.Supported()
			if err := w.handled(leader, was.Node, r); !errors.Is(err, errUnanswered) {
				t.Errorf("%+v: %v", r, err)
			}
		}
		if m, _ := w.leader().open().Members().Configuration().Find(was.Node); !m.Voter || m.Address != was.Address {
			t.Errorf("%+v", m)
		}
	})
}

// TestChangesOfTheMembersAreRecorded in the audit log and the events, with the node that has asked.
func TestChangesOfTheMembersAreRecorded(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		w.formed(3, 3)
		leader := string(w.leader().id)
		w.join = slices.DeleteFunc(slices.Clone(w.join), func(name string) bool { return name == leader }) // the others relay
		w.start("n4")
		w.formed(4, 4)
		if err := w.kill("n4"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
		w.startAt("n4", "elsewhere", w.dir+"/n4")
		w.await("n4 has moved", func() bool {
			m, _ := w.leader().open().Members().Configuration().Find("n4")
			return m.Address == "elsewhere"
		})
		if err := w.kill("elsewhere"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
		w.startAt("n4", "elsewhere", w.dir+"/another")
		w.formed(4, 4)
		w.await("all is recorded", func() bool {
			acts := meta.JournalOf(w.leader().open().View()).Acts()
			return len(acts) > 0 && acts[len(acts)-1].Verb == meta.ActPromote
		})
		var got []string
		for _, a := range meta.JournalOf(w.leader().open().View()).Acts() {
			if a.Object != "n4" {
				continue
			}
			by := a.Identity
			if by == "node "+leader {
				by = "leader"
			}
			got = append(got, a.Verb+" by "+by)
			if a.Status != http.StatusOK || a.At == 0 || a.Agent != "brokerd" || string(a.Node) != leader || strings.Contains(a.Request, "relayed by node") != (a.Verb == meta.ActJoin || a.Verb == meta.ActMove || a.Verb == meta.ActExpel) {
				t.Errorf("%+v", a)
			}
		}
		want := []string{"JOIN by node n4", "PROMOTE by leader", "MOVE by node n4", "EXPEL by node n4", "JOIN by node n4", "PROMOTE by leader"}
		if !slices.Equal(got, want) {
			t.Errorf("audit log:\n%q, not\n%q", got, want)
		}
		kinds := map[string]int{}
		for _, e := range meta.JournalOf(w.leader().open().View()).Events(0) {
			if e.Object == "n4" {
				kinds[e.Kind]++
			}
		}
		if kinds["member_added"] != 2 || kinds["member_promoted"] != 2 || kinds["member_moved"] != 1 || kinds["member_removed"] != 1 {
			t.Errorf("events %v", kinds)
		}
	})
}

// TestOpenPortAdmitsNobodyWithAccessControl but nodes with a join token: a local user joined a node that
// listens on loopback, and was its administrator.
func TestOpenPortAdmitsNobodyWithAccessControl(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.exposed = true
		w.start("n1")
		w.formed(1, 1)
		w.start("n2") // access control is off
		w.start("n3")
		w.formed(3, 3)
		w.change(access.Change{Verb: access.CreateUser, User: "ops", Certificates: []string{"ops"}, Rules: []access.Rule{{Right: access.Admin}}})
		w.change(access.Change{Verb: access.Enable, By: "ops"})
		if err := w.refused("n4"); !errors.Is(err, ErrOpenPort) || !strings.Contains(err.Error(), "cluster-secret-file") || !strings.Contains(err.Error(), "node join-token create n4") {
			t.Errorf("without a token: %v", err)
		}
		w.give("n4", w.create("n4", -time.Minute))
		if err := w.refused("n4"); !errors.Is(err, ErrOpenPort) {
			t.Errorf("with an expired token: %v", err)
		}
		_, refused := w.joins()
		if len(refused) != 2 || refused[0].Object != "n4" || refused[0].Status != http.StatusForbidden {
			t.Errorf("audit log: %+v", refused)
		}
		w.give("n4", w.create("n4", time.Hour))
		w.start("n4")
		w.formed(4, 4)
		if err := w.kill("n3"); err != nil { // the name of a member is no proof
			t.Fatal(err)
		}
		p := w.startAt("n3", "elsewhere", w.dir+"/n3")
		<-p.done
		if err := w.kill("elsewhere"); !errors.Is(err, ErrOpenPort) {
			t.Errorf("a member elsewhere: %v", err)
		}
		w.start("n3")
		w.formed(4, 4)
		w.exposed = false // all nodes have a secret
		w.start("n5")
		w.formed(5, 5)
	})
}

// TestAnswerIsOfTheNodeThatWasCalled: a member cannot answer for another one at an address of its own.
func TestAnswerIsOfTheNodeThatWasCalled(t *testing.T) {
	n := New(Options{
		Node: "n1", Address: "n1", Session: 1,
		Call: func(context.Context, meta.NodeID, string, []byte) ([]byte, error) {
			return json.Marshal(answer{seen: seen{identity: who("n3"), Member: true}, Granted: true})
		},
	})
	if r := n.ask(t.Context(), "n2", "n3", request{Kind: askWho}); !errors.Is(r.err, ErrNotSender) || r.Member {
		t.Errorf("%+v", r)
	}
	if r := n.ask(t.Context(), "n3", "n3", request{Kind: askWho}); r.err != nil || !r.Member {
		t.Errorf("%+v", r)
	}
}

// TestPromiseIsNotRelayed: a member of a cluster promises nothing for others.
func TestPromiseIsNotRelayed(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		w.start("n2")
		w.formed(2, 2)
		for _, kind := range []requestKind{askPromise, askBond, askRelease} {
			if err := w.handled("n1", "n2", request{Kind: kind, From: who("n3"), Relayed: true}); !errors.Is(err, ErrNotSender) {
				t.Errorf("%s: %v", kind, err)
			}
		}
	})
}

// TestNewLeaderKnowsThatTokensAreRequired: it may not have applied yet what is committed.
func TestNewLeaderKnowsThatTokensAreRequired(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		for i := range 500 { // before it, so that it is applied late
			if _, err := w.process("n1").open().Propose(t.Context(), meta.SetSettings{Values: map[string]string{meta.SettingAutoCreateTopics: fmt.Sprint(i%2 == 0)}}); err != nil {
				t.Fatal(err)
			}
		}
		w.change(access.Change{Verb: access.RequireJoinTokens})
		for range 5 {
			if err := w.kill("n1"); err != nil {
				t.Fatal(err)
			}
			p := w.start("n1")
			<-p.ready
			s := p.open()
			for moved := s.LeaderChanged(); !s.IsLeader(); moved = s.LeaderChanged() {
				<-moved
			}
			if err := redeem(t.Context(), p.node, s, who("n2"), nil); !errors.Is(err, ErrJoinToken) {
				t.Errorf("as a new leader: %v", err)
			}
		}
	})
}

// TestVoterHasAnswered: at random, nodes become unreachable from others, and reachable again. Who gets a
// vote has answered the leader for long enough.
func TestVoterHasAnswered(t *testing.T) {
	rng := testrand.New(t)
	for range 2000 {
		var k contact
		now := time.Unix(1000, 0)
		var since time.Time // the model
		session := uint64(1)
		for range 60 {
			now = now.Add(time.Duration(rng.Int64N(int64(2 * time.Second))))
			r := reply{seen: seen{identity: identity{"x", "x", session}, Member: true, Applied: 7}}
			switch rng.IntN(20) {
			case 0:
				r.err = errors.New("no answer")
			case 1:
				session++
				r.Session = session
				since = time.Time{}
			case 2:
				r.Member = false
			}
			if r.err != nil || !r.Member {
				since = time.Time{}
			} else if since.IsZero() {
				since = now
			}
			k.observe(r, 7, now)
			want := actNothing
			if !since.IsZero() && now.Sub(since) >= stableFor {
				want = actPromote
			}
			if got := review(raftstore.Configuration{}, k, false, true, 7, now); got != want {
				t.Fatalf("%s, not %s: %+v at %v", got, want, k, now)
			}
		}
	}
}

// FuzzHandle: a request of any content, from any sender, is answered, and changes the members only if
// the sender asks for itself.
func FuzzHandle(f *testing.F) {
	for _, r := range []request{
		{Kind: askWho},
		{Kind: askPromise, From: who("x")},
		{Kind: askBond, From: who("x")},
		{Kind: askRelease, From: who("x")},
		{Kind: askJoin, From: who("x"), Fresh: true, Proof: &access.JoinProof{ID: "1", Signature: []byte("2")}},
		{Kind: askJoin, From: who("x"), Cluster: "other", Relayed: true, Levels: level.Supported()},
		{Kind: "unknown", From: who("y")},
	} {
		text, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("x", text)
		f.Add("y", text)
	}
	f.Add("x", []byte(`{"kind":"join","from":{"node":7}}`))
	f.Add("", []byte(`null`))
	f.Fuzz(func(t *testing.T, from string, text []byte) {
		n := New(Options{Node: "n1", Address: "n1", Session: 1})
		out, err := n.Handle(t.Context(), meta.NodeID(from), text)
		if err != nil {
			return
		}
		a, err := decode[answer](out)
		if err != nil || a.Node != "n1" {
			t.Fatalf("%s: %v", out, err)
		}
		r, err := decode[request](text)
		if err != nil {
			t.Fatal(err)
		}
		if a.Granted && r.Kind != askWho && string(r.From.Node) != from {
			t.Errorf("granted %s to %s in the name of %s", r.Kind, from, r.From.Node)
		}
		if held, ok := n.word.heldAt(time.Now()); ok && string(held.Node) != from {
			t.Errorf("promised to %s at the request of %s", held.Node, from)
		}
	})
}

// FuzzAdmit: whatever a candidate claims and whatever answers, nothing is taken from a member unless
// the candidate's own process answers at its address, and there is one decision.
func FuzzAdmit(f *testing.F) {
	f.Add("n1", "a", uint64(1), false, "n2", "b", uint64(2), false, "n2", uint64(1), uint8(3))
	f.Add("n9", "c", uint64(1), true, "n9", "c", uint64(1), true, "", uint64(0), uint8(0))
	f.Fuzz(func(t *testing.T, node, address string, session uint64, fresh bool, atNode, atAddress string, atSession uint64, member bool, other string, otherSession uint64, votes uint8) {
		var c raftstore.Configuration
		for i, name := range []string{"n1", "n2", "n3"} {
			c.Members = append(c.Members, raftstore.Member{ID: meta.NodeID(name), Address: string("abc"[i]), Voter: votes>>i&1 == 1})
		}
		cand := candidate{identity{meta.NodeID(node), address, session}, fresh}
		around := neighbours{
			atName: identity{meta.NodeID(other), "z", otherSession}, holder: identity{meta.NodeID(other), address, otherSession},
			itself: seen{identity: identity{meta.NodeID(atNode), atAddress, atSession}, Member: member},
		}
		act, err := admit(c, cand, around)
		if (act == actRefuse) != (err != nil) || act == actPromote {
			t.Fatalf("%s, %v", act, err)
		}
		_, known := c.Find(cand.Node)
		if takes := act == actRemove || act == actMove || act == actDisplace; takes && around.itself.identity != cand.identity {
			t.Errorf("%s, but %+v answers", act, around.itself)
		}
		if act == actAdd && (known || !fresh) || act == actRemove && (!fresh || member) || act == actMove && !known {
			t.Errorf("%s of %+v", act, cand)
		}
	})
}
