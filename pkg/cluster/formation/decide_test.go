package formation

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

func who(name string) identity { return identity{meta.NodeID(name), name, 1} }

func fresh(name string, expect int, sees ...meta.NodeID) seen {
	return seen{identity: who(name), Expect: expect, Sees: sees}
}

func member(name, cluster string) seen {
	return seen{identity: who(name), Member: true, Cluster: cluster}
}

func TestNodeWithoutState(t *testing.T) {
	self := who("n2")
	twin := seen{identity: identity{"n2", "elsewhere", 2}}
	other := fresh("n3", 3, "n2")
	other.Session = 2
	for _, test := range []struct {
		name    string
		expect  int
		asked   int
		answers []seen
		want    stepKind
		others  []meta.NodeID
		err     error
	}{
		{"alone as it should be", 1, 0, nil, stepFound, nil, nil},
		{"told of its own address only", 1, 1, []seen{{identity: self}}, stepFound, nil, nil},
		{"told of an address that is silent", 1, 1, nil, stepWait, nil, nil},
		{"alone, with another that is alone", 1, 1, []seen{fresh("n1", 1, "n2")}, stepWait, nil, nil},
		{"only to join", 0, 1, nil, stepWait, nil, nil},
		{"a member answers", 3, 2, []seen{member("n1", "x"), fresh("n3", 3, "n2")}, stepJoin, []meta.NodeID{"n1"}, nil},
		{"two members answer", 1, 2, []seen{member("n3", "x"), member("n1", "x")}, stepJoin, []meta.NodeID{"n1", "n3"}, nil},
		{"members of two clusters", 3, 2, []seen{member("n1", "x"), member("n3", "y")}, stepStop, nil, ErrTwoClusters},
		{"members from before and after a recovery", 3, 2, []seen{member("n1", "x"), member("n3", "x.2.AAAA")}, stepJoin, []meta.NodeID{"n3"}, nil},
		{"members of two recoveries", 3, 2, []seen{member("n1", "x.2.AAAA"), member("n3", "x.2.BBBB")}, stepStop, nil, ErrTwoClusters},
		{"a member that knows no id yet", 3, 2, []seen{member("n1", ""), fresh("n3", 3, "n2")}, stepWait, nil, nil},
		{"a member that knows no id yet, and enough others", 2, 2, []seen{member("n1", ""), fresh("n3", 2, "n2")}, stepWait, nil, nil},
		{"and one that knows it", 3, 2, []seen{member("n1", ""), member("n3", "x")}, stepJoin, []meta.NodeID{"n3"}, nil},
		{"its own name elsewhere", 3, 2, []seen{twin}, stepStop, nil, ErrNodeIDTaken},
		{"one name twice", 3, 3, []seen{fresh("n3", 3, "n2"), other}, stepStop, nil, ErrNodeIDTaken},
		{"one node at two addresses", 2, 2, []seen{fresh("n3", 2, "n2"), fresh("n3", 2, "n2")}, stepFound, []meta.NodeID{"n3"}, nil},
		{"too few", 3, 2, []seen{fresh("n3", 3, "n2")}, stepWait, nil, nil},
		{"enough, but a smaller one founds", 3, 2, []seen{fresh("n1", 3, "n2"), fresh("n3", 3, "n2")}, stepWait, nil, nil},
		{"enough", 3, 2, []seen{fresh("n4", 3, "n2"), fresh("n3", 3, "n2")}, stepFound, []meta.NodeID{"n3", "n4"}, nil},
		{"more than enough", 2, 2, []seen{fresh("n4", 2, "n2"), fresh("n3", 2, "n2")}, stepFound, []meta.NodeID{"n3"}, nil},
		{"one that does not see it", 3, 2, []seen{fresh("n4", 3, "n2"), fresh("n3", 3, "n4")}, stepWait, nil, nil},
		{"one that expects others", 3, 2, []seen{fresh("n4", 3, "n2"), fresh("n3", 5, "n2")}, stepWait, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := next(self, test.expect, test.asked, test.answers)
			var others []meta.NodeID
			for _, s := range st.others {
				others = append(others, s.Node)
			}
			if st.do != test.want || !errors.Is(st.err, test.err) || !cmp.Equal(others, test.others) {
				t.Errorf("%+v", st)
			}
			if (st.reason != "") != (st.do == stepWait) {
				t.Errorf("reason %q", st.reason)
			}
		})
	}
}

func TestLeaderDecidesAboutCandidate(t *testing.T) {
	of := func(voters int) (c raftstore.Configuration) {
		for _, name := range []string{"n1", "n2", "n3", "n4", "n5"}[:voters] {
			c.Members = append(c.Members, raftstore.Member{ID: meta.NodeID(name), Address: name, Voter: true})
		}
		c.Members = append(c.Members, raftstore.Member{ID: "x", Address: "x"})
		return c
	}
	moved, twin := identity{"n2", "z", 1}, identity{"n2", "z", 2}
	itself := func(who identity) neighbours { return neighbours{itself: seen{identity: who}} }
	named := func(who identity) neighbours { return neighbours{atName: who} }
	for _, test := range []struct {
		name   string
		c      raftstore.Configuration
		who    candidate
		around neighbours
		want   action
		err    error
	}{
		{"new", of(3), candidate{who("y"), true}, neighbours{}, actAdd, nil},
		{"unknown, with state", of(3), candidate{who("y"), false}, neighbours{}, actRefuse, failure.Removed},
		{"a member without a vote", of(3), candidate{who("x"), false}, neighbours{}, actNothing, nil},
		{"one that has not started", of(3), candidate{who("x"), true}, neighbours{}, actNothing, nil},
		{"one of one voter", of(1), candidate{who("x"), false}, neighbours{}, actNothing, nil},
		{"a voter", of(3), candidate{who("n2"), false}, neighbours{}, actNothing, nil},
		{"a voter that lost its state", of(3), candidate{who("n2"), true}, neighbours{who("n2"), seen{identity: who("n2")}, identity{}}, actRemove, nil},
		{"one that does not answer", of(3), candidate{who("n2"), true}, neighbours{}, actRefuse, errUnanswered},
		{"one that answers with its state", of(3), candidate{who("n2"), true}, neighbours{who("n2"), seen{identity: who("n2"), Member: true}, identity{}}, actRefuse, errUnanswered},
		{"one whose next process answers", of(3), candidate{who("n2"), true}, itself(identity{"n2", "n2", 2}), actRefuse, errUnanswered},
		{"a voter elsewhere", of(3), candidate{moved, false}, itself(moved), actMove, nil},
		{"a voter elsewhere, that does not answer there", of(3), candidate{moved, false}, neighbours{}, actRefuse, errUnanswered},
		{"a voter elsewhere, that answers by another address", of(3), candidate{moved, false}, itself(identity{"n2", "n2", 1}), actRefuse, errUnanswered},
		{"a voter elsewhere, and in its place", of(3), candidate{twin, false}, named(who("n2")), actRefuse, ErrNodeIDTaken},
		{"another node in its place", of(3), candidate{twin, false}, neighbours{who("n7"), seen{identity: twin}, identity{}}, actMove, nil},
		{"a clone without state", of(3), candidate{twin, true}, named(who("n2")), actRefuse, ErrNodeIDTaken},
	} {
		t.Run(test.name, func(t *testing.T) {
			if act, err := admit(test.c, test.who, test.around); act != test.want || !errors.Is(err, test.err) {
				t.Errorf("%v, %v", act, err)
			}
		})
	}
}

func TestNodeTakesAddressOnlyIfItAnswersThere(t *testing.T) {
	c := raftstore.Configuration{Members: []raftstore.Member{{ID: "n1", Address: "a", Voter: true}, {ID: "n2", Address: "b", Voter: true}}}
	for _, test := range []struct {
		name           string
		who            candidate
		itself, holder identity
		want           action
		err            error
	}{
		{"a new node where it answers", candidate{identity{"n3", "b", 7}, true}, identity{"n3", "b", 7}, identity{}, actDisplace, nil},
		{"a new node where the member answers", candidate{identity{"n3", "b", 7}, true}, identity{}, identity{"n2", "b", 1}, actRefuse, ErrAddressTaken},
		{"a new node where nobody answers", candidate{identity{"n3", "b", 7}, true}, identity{}, identity{}, actRefuse, errAddressUnclear},
		{"a new node where its next process answers", candidate{identity{"n3", "b", 7}, true}, identity{"n3", "b", 8}, identity{}, actRefuse, errAddressUnclear},
		{"a member that has moved there", candidate{identity{"n1", "b", 7}, false}, identity{"n1", "b", 7}, identity{}, actDisplace, nil},
		{"a removed one", candidate{identity{"n3", "b", 7}, false}, identity{"n3", "b", 7}, identity{}, actRefuse, failure.Removed},
		{"a new node at a free address", candidate{identity{"n3", "c", 7}, true}, identity{}, identity{}, actAdd, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			around := neighbours{itself: seen{identity: test.itself}, holder: test.holder}
			if act, err := admit(c, test.who, around); act != test.want || !errors.Is(err, test.err) {
				t.Errorf("%v, %v", act, err)
			}
		})
	}
}

// TestVoteNeedsAnUnbrokenTimeOfAnswers: what a member says of itself gives it no vote, only its answers
// to the leader.
func TestVoteNeedsAnUnbrokenTimeOfAnswers(t *testing.T) {
	const committed = 1000
	silent := fate.Refuse("no answer")
	began := time.Unix(1000, 0)
	caught := seen{identity: who("x"), Member: true, Applied: committed}
	answers := func(s seen, every time.Duration, times int) (out []event) {
		for i := range times {
			out = append(out, event{time.Duration(i) * every, reply{seen: s}})
		}
		return out
	}
	behind, early, stateless := caught, caught, caught
	behind.Applied, early.Applied, stateless.Member = committed-1, 3, false
	another := caught
	another.Session++
	twice := append(answers(caught, stableFor, 2), event{stableFor + 1, reply{err: silent}})
	for _, test := range []struct {
		name       string
		calls      []event
		founding   bool
		registered bool
		voters     int
		want       action
	}{
		{"not called yet", nil, false, false, 1, actNothing},
		{"one answer", answers(caught, 0, 1), false, false, 1, actNothing},
		{"one answer of a founder", answers(caught, 0, 1), true, false, 1, actPromote},
		{"one answer of a founder that is behind", answers(behind, 0, 1), true, false, 1, actNothing},
		{"answers for too short a time", answers(caught, stableFor-1, 2), false, false, 1, actNothing},
		{"answers", answers(caught, stableFor, 2), false, false, 1, actPromote},
		{"answers of the fifth", answers(caught, stableFor, 2), false, false, maxVoters - 1, actPromote},
		{"answers of the sixth", answers(caught, stableFor, 2), false, false, maxVoters, actNothing},
		{"answers without the metadata", answers(behind, stableFor, 2), false, false, 1, actNothing},
		{"answers with the first of the metadata", answers(early, stableFor, 2), false, false, 1, actNothing},
		{"answers without state", answers(stateless, stableFor, 2), false, false, 1, actNothing},
		{"then no answer", twice, false, false, 1, actNothing},
		{"then again", append(slices.Clone(twice), event{stableFor + 2, reply{seen: caught}}), false, false, 1, actNothing},
		{"then again for long enough", append(slices.Clone(twice), event{stableFor + 2, reply{seen: caught}}, event{2*stableFor + 2, reply{seen: caught}}), false, false, 1, actPromote},
		{"of two processes", []event{{0, reply{seen: caught}}, {stableFor, reply{seen: another}}}, false, false, 1, actNothing},
		{"none", []event{{0, reply{err: silent}}, {unansweredFor - 1, reply{err: silent}}}, false, false, 1, actNothing},
		{"none for long", []event{{0, reply{err: silent}}, {unansweredFor, reply{err: silent}}}, false, false, 1, actRemove},
		{"none for long, of a founder", []event{{0, reply{err: silent}}, {unansweredFor, reply{err: silent}}}, true, false, 1, actRemove},
		{"none for long, of a registered node", []event{{0, reply{err: silent}}, {unansweredFor, reply{err: silent}}}, false, true, 1, actNothing},
		{"one, then none for long", []event{{0, reply{seen: caught}}, {1, reply{err: silent}}, {unansweredFor, reply{err: silent}}}, false, false, 1, actNothing},
		{"one, then none for longer", []event{{0, reply{seen: caught}}, {1, reply{err: silent}}, {unansweredFor + 1, reply{err: silent}}}, false, false, 1, actRemove},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c raftstore.Configuration
			for i := range test.voters {
				c.Members = append(c.Members, raftstore.Member{ID: meta.NodeID(rune('a' + i)), Voter: true})
			}
			var k contact
			now := began
			for _, e := range test.calls {
				now = began.Add(e.at)
				k.observe(e.r, committed, now)
			}
			if got := review(c, k, test.founding, test.registered, committed, now); got != test.want {
				t.Errorf("%s, not %s", got, test.want)
			}
		})
	}
}

// event is a call to a member.
type event struct {
	at time.Duration
	r  reply
}

// TestMemberBehindGetsNoVote: it had the metadata when it answered first, but not what came after.
func TestMemberBehindGetsNoVote(t *testing.T) {
	began := time.Unix(1000, 0)
	for _, test := range []struct {
		applied, committed uint64
		want               action
	}{
		{1000, 1000 + promotionLag, actPromote},
		{1000, 1001 + promotionLag, actNothing},
	} {
		var k contact
		for _, at := range []time.Duration{0, stableFor} {
			k.observe(reply{seen: seen{identity: who("x"), Member: true, Applied: test.applied}}, test.applied, began.Add(at))
		}
		if got := review(raftstore.Configuration{}, k, false, false, test.committed, began.Add(stableFor)); got != test.want {
			t.Errorf("%d of %d: %s, not %s", test.applied, test.committed, got, test.want)
		}
	}
}

func TestTolerance(t *testing.T) {
	c := raftstore.Configuration{Members: []raftstore.Member{{ID: "learner"}}}
	for voters, want := range []int{0, 0, 0, 1, 1, 2} {
		if voters > 0 {
			c.Members = append(c.Members, raftstore.Member{ID: meta.NodeID(rune('a' + voters)), Voter: true})
			all := Tolerance(c, func(meta.NodeID) bool { return true })
			none := Tolerance(c, func(meta.NodeID) bool { return false })
			if all != want || none != -(voters/2+1) {
				t.Errorf("%d voters: %d, and %d with none up", voters, all, none)
			}
		}
	}
}

func TestPromiseIsGivenToOneBootstrapNode(t *testing.T) {
	a, b := who("a"), who("b")
	again := identity{"a", "a", 2}  // a, restarted
	clone := identity{"a", "a2", 2} // another process of that name
	const d = time.Second
	type ask struct {
		what string
		who  identity
		at   time.Duration
		want bool
	}
	for _, test := range []struct {
		name string
		asks []ask
	}{
		{"exclusive", []ask{{"promise", a, 0, true}, {"promise", b, 1, false}, {"promise", a, 2, true}, {"bind", b, 3, false}}},
		{"runs out", []ask{{"promise", a, 0, true}, {"promise", b, d, true}, {"bind", a, d, false}, {"bind", b, d, true}}},
		{"too late to bind", []ask{{"promise", a, 0, true}, {"bind", a, d, false}}},
		{"a bond stays", []ask{{"promise", a, 0, true}, {"bind", a, 1, true}, {"promise", b, 100 * d, false}, {"bind", a, 100 * d, true}}},
		{"released", []ask{{"promise", a, 0, true}, {"release", b, 1, true}, {"promise", b, 1, false}, {"release", a, 1, true}, {"promise", b, 2, true}}},
		{"a bond is not released", []ask{{"promise", a, 0, true}, {"bind", a, 1, true}, {"release", a, 1, true}, {"promise", b, 2, false}}},
		{"the founder started anew", []ask{{"promise", a, 0, true}, {"bind", a, 1, true}, {"promise", again, 2, true}, {"bind", a, 2, false}, {"bind", again, 3, true}}},
		{"the founder started anew, and is gone", []ask{{"promise", a, 0, true}, {"bind", a, 1, true}, {"promise", again, 2, true}, {"promise", b, 2 + d, true}}},
		{"a clone of the founder", []ask{{"promise", a, 0, true}, {"bind", a, 1, true}, {"promise", clone, 2, false}}},
		{"without a promise", []ask{{"bind", a, 0, false}}},
		{"joined", []ask{{"join", a, 0, true}, {"promise", b, 1, false}, {"bind", b, 1, false}}},
		{"promised, joins the founder's", []ask{{"promise", a, 0, true}, {"join", a, 1, true}}},
		{"promised, does not join another", []ask{{"promise", a, 0, true}, {"join", b, 1, false}, {"join", b, d, true}}},
		{"bound, does not join another", []ask{{"promise", a, 0, true}, {"bind", a, 1, true}, {"join", b, 100 * d, false}}},
		{"its own founder", []ask{{"promise", who("self"), 0, true}, {"bind", who("self"), 1, true}, {"join", b, 2, true}, {"bind", who("self"), 3, false}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p promises
			start := time.Unix(1000, 0)
			for i, e := range test.asks {
				got, now := true, start.Add(e.at)
				switch e.what {
				case "promise":
					got = p.promise(e.who, now, d)
				case "bind":
					got = p.bind(e.who, now)
				case "release":
					p.release(e.who)
				case "join":
					got = p.join(who("self"), []seen{member(string(e.who.Node), "x")}, now)
				}
				if got != e.want {
					t.Errorf("%d: %+v: %v", i, e, got)
				}
			}
		})
	}
}
