package formation

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/failure"
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
	const committed = 1000
	for _, test := range []struct {
		name     string
		c        raftstore.Configuration
		who      candidate
		occupant identity
		want     action
		err      error
	}{
		{"new", of(3), candidate{who("y"), true, 0}, identity{}, actAdd, nil},
		{"unknown, with state", of(3), candidate{who("y"), false, 900}, identity{}, actRefuse, failure.Removed},
		{"caught up", of(3), candidate{who("x"), false, committed - promotionLag}, identity{}, actPromote, nil},
		{"behind", of(3), candidate{who("x"), false, committed - promotionLag - 1}, identity{}, actNothing, nil},
		{"not started", of(3), candidate{who("x"), true, committed}, identity{}, actNothing, nil},
		{"five vote", of(5), candidate{who("x"), false, committed}, identity{}, actNothing, nil},
		{"a voter", of(3), candidate{who("n2"), false, 0}, identity{}, actNothing, nil},
		{"a voter that lost its state", of(3), candidate{who("n2"), true, 0}, who("n2"), actRemove, nil},
		{"a voter elsewhere", of(3), candidate{identity{"n2", "z", 1}, false, 0}, identity{}, actMove, nil},
		{"a voter elsewhere, and in its place", of(3), candidate{identity{"n2", "z", 2}, false, 0}, who("n2"), actRefuse, ErrNodeIDTaken},
		{"another node in its place", of(3), candidate{identity{"n2", "z", 2}, false, 0}, who("n7"), actMove, nil},
		{"a clone without state", of(3), candidate{identity{"n2", "z", 2}, true, 0}, who("n2"), actRefuse, ErrNodeIDTaken},
	} {
		t.Run(test.name, func(t *testing.T) {
			if act, err := admit(test.c, committed, test.who, neighbours{atName: test.occupant}); act != test.want || !errors.Is(err, test.err) {
				t.Errorf("%v, %v", act, err)
			}
		})
	}
}

func TestNodeTakesAddressOnlyIfItAnswersThere(t *testing.T) {
	c := raftstore.Configuration{Members: []raftstore.Member{{ID: "n1", Address: "a", Voter: true}, {ID: "n2", Address: "b", Voter: true}}}
	for _, test := range []struct {
		name      string
		who       candidate
		atAddress identity
		want      action
		err       error
	}{
		{"a new node where it answers", candidate{identity{"n3", "b", 7}, true, 0}, identity{"n3", "b", 7}, actDisplace, nil},
		{"a new node where the member answers", candidate{identity{"n3", "b", 7}, true, 0}, identity{"n2", "b", 1}, actRefuse, ErrAddressTaken},
		{"a new node where nobody answers", candidate{identity{"n3", "b", 7}, true, 0}, identity{}, actRefuse, errAddressUnclear},
		{"a new node where its next process answers", candidate{identity{"n3", "b", 7}, true, 0}, identity{"n3", "b", 8}, actRefuse, errAddressUnclear},
		{"a member that has moved there", candidate{identity{"n1", "b", 7}, false, 9}, identity{"n1", "b", 7}, actDisplace, nil},
		{"a removed one", candidate{identity{"n3", "b", 7}, false, 9}, identity{"n3", "b", 7}, actRefuse, failure.Removed},
		{"a new node at a free address", candidate{identity{"n3", "c", 7}, true, 0}, identity{}, actAdd, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if act, err := admit(c, 9, test.who, neighbours{atAddress: test.atAddress}); act != test.want || !errors.Is(err, test.err) {
				t.Errorf("%v, %v", act, err)
			}
		})
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
	type event struct {
		what string
		who  identity
		at   time.Duration
		want bool
	}
	for _, test := range []struct {
		name   string
		events []event
	}{
		{"exclusive", []event{{"promise", a, 0, true}, {"promise", b, 1, false}, {"promise", a, 2, true}, {"bind", b, 3, false}}},
		{"runs out", []event{{"promise", a, 0, true}, {"promise", b, d, true}, {"bind", a, d, false}, {"bind", b, d, true}}},
		{"too late to bind", []event{{"promise", a, 0, true}, {"bind", a, d, false}}},
		{"a bond stays", []event{{"promise", a, 0, true}, {"bind", a, 1, true}, {"promise", b, 100 * d, false}, {"bind", a, 100 * d, true}}},
		{"released", []event{{"promise", a, 0, true}, {"release", b, 1, true}, {"promise", b, 1, false}, {"release", a, 1, true}, {"promise", b, 2, true}}},
		{"a bond is not released", []event{{"promise", a, 0, true}, {"bind", a, 1, true}, {"release", a, 1, true}, {"promise", b, 2, false}}},
		{"the founder started anew", []event{{"promise", a, 0, true}, {"bind", a, 1, true}, {"promise", again, 2, true}, {"bind", a, 2, false}, {"bind", again, 3, true}}},
		{"a clone of the founder", []event{{"promise", a, 0, true}, {"bind", a, 1, true}, {"promise", clone, 2, false}}},
		{"without a promise", []event{{"bind", a, 0, false}}},
		{"joined", []event{{"join", a, 0, true}, {"promise", b, 1, false}, {"bind", b, 1, false}}},
		{"promised, joins the founder's", []event{{"promise", a, 0, true}, {"join", a, 1, true}}},
		{"promised, does not join another", []event{{"promise", a, 0, true}, {"join", b, 1, false}, {"join", b, d, true}}},
		{"bound, does not join another", []event{{"promise", a, 0, true}, {"bind", a, 1, true}, {"join", b, 100 * d, false}}},
		{"its own founder", []event{{"promise", who("self"), 0, true}, {"bind", who("self"), 1, true}, {"join", b, 2, true}, {"bind", who("self"), 3, false}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p promises
			start := time.Unix(1000, 0)
			for i, e := range test.events {
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
