package meta

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// random makes commands, most of them valid, with a small set of names.
type random struct{ *rand.Rand }

func (r random) node() NodeID    { return NodeID(fmt.Sprintf("n%d", r.IntN(4))) }
func (r random) topic() string   { return fmt.Sprintf("t%d", r.IntN(6)) }
func (r random) channel() string { return fmt.Sprintf("c%d", r.IntN(5)) }
func (r random) flag() *bool     { b := r.IntN(2) == 0; return &b }
func (r random) number() uint64  { return r.Uint64N(5) }
func (r random) ids(n int) (ids []NodeID) {
	for _, i := range r.Perm(4)[:n] {
		ids = append(ids, NodeID(fmt.Sprintf("n%d", i)))
	}
	return ids
}

func (r random) assignment(partitions, replicas int) (out [][]NodeID) {
	for range partitions {
		out = append(out, r.ids(replicas))
	}
	return out
}

func (r random) command(s *State) Command {
	t := r.topic()
	version, epoch := r.number(), seq.Epoch(r.number())
	if known := s.Topic(t); known != nil && r.IntN(4) > 0 {
		version, epoch = known.Partitions[0].Version, known.Partitions[0].Epoch
	}
	switch r.IntN(22) {
	case 20:
		return RestoreTopic{Name: t}
	case 21:
		return PurgeTopics{[]Incarnation{Incarnation(r.Uint64N(s.Index() + 1))}}
	case 0, 17:
		disk := Disk{ID: fmt.Sprint(r.IntN(2)), Start: fmt.Sprint(r.IntN(3))}
		return NodeStarted{
			Node: Node{ID: r.node(), BootID: fmt.Sprint(r.number()), Disk: disk}, Unclean: *r.flag(), Empty: r.IntN(8) == 0,
			Follows: []string{fmt.Sprint(r.IntN(3))}, Marked: fmt.Sprint(r.IntN(3)),
		}
	case 1:
		return SetNodeState{ID: r.node(), State: []NodeState{NodeUp, NodeDown, NodeDraining, "odd"}[r.IntN(4)]}
	case 2:
		return RemoveNode{r.node(), r.IntN(2) == 0}
	case 3:
		return DeleteTopic{Name: t}
	case 4:
		ordered := *r.flag()
		return AlterTopic{Name: t, Was: TopicConfig{Ordered: !ordered}, Will: TopicConfig{Ordered: ordered}}
	case 5:
		return AddPartitions{Name: t, Was: 1 + r.IntN(2), Assignment: r.assignment(1, 2)}
	case 6:
		return PauseTopic{t, *r.flag()}
	case 7:
		return DeleteChannel{Topic: t, Channel: r.channel()}
	case 8:
		return AlterChannel{Topic: t, Channel: r.channel(), Paused: r.flag()}
	case 9, 10:
		return ElectLeaders{[]Election{{Topic: t, Version: version, Leader: r.node(), Unclean: *r.flag()}}}
	case 11:
		c := AlterISR{Topic: t, Epoch: epoch, Version: version, ISR: r.ids(1 + r.IntN(3))}
		if *r.flag() {
			c.Joiner, c.JoinerIncarnation = c.ISR[len(c.ISR)-1], r.number()
		}
		return c
	case 12:
		return SetSettings{map[string]string{SettingTopicPartitions: fmt.Sprint(r.number())}}
	case 14:
		return SetNodeIntent{r.node(), []NodeIntent{IntentNone, IntentDrain, IntentDecommission, "odd"}[r.IntN(4)]}
	case 15:
		return StartReassign{Topic: t, Version: version, Target: r.ids(1 + r.IntN(3))}
	case 16:
		return FinishReassign{Topic: t, Version: version}
	case 13:
		return CreateChannel{Topic: t, Channel: r.channel(), CreatedAt: int64(r.number())}
	}
	partitions, replicas := 1+r.IntN(3), 1+r.IntN(3)
	c := TopicConfig{Partitions: partitions, Replicas: replicas}.WithDefaults(4, false)
	return CreateTopic{Name: t, Config: c, Assignment: r.assignment(partitions, replicas)}
}

func checkInvariants(t *testing.T, s *State) {
	t.Helper()
	partitions := 0
	for tp := range s.Topics() {
		partitions += len(tp.Partitions)
		if len(tp.Partitions) != tp.Config.Partitions || s.Topic(tp.Name) != tp {
			t.Fatalf("%s: %+v", tp.Name, tp)
		}
		for i := range tp.Partitions {
			if err := validISR(&tp.Partitions[i]); err != nil {
				t.Fatalf("%s/%d: %v", tp.Name, i, err)
			}
			if err := validMove(&tp.Partitions[i]); err != nil {
				t.Fatalf("%s/%d: %v", tp.Name, i, err)
			}
			for _, id := range tp.Partitions[i].Replicas {
				if s.Node(id) == nil {
					t.Fatalf("%s/%d: no node %s", tp.Name, i, id)
				}
			}
		}
	}
	if partitions != s.topics.partitions {
		t.Fatalf("%d partitions, counted %d", partitions, s.topics.partitions)
	}
	for d := range TrashOf(s).All() {
		for i := range d.Topic.Partitions {
			for _, id := range d.Topic.Partitions[i].Replicas {
				if s.Node(id) == nil {
					t.Fatalf("%s/%d in the trash: no node %s", d.Topic.Name, i, id)
				}
			}
		}
	}
}

// checkOutcome checks the effects of a successful command.
func checkOutcome(t *testing.T, s *State, was *Node, c Command) {
	t.Helper()
	switch c := c.(type) {
	case NodeStarted:
		for tp := range s.Topics() {
			for i := range tp.Partitions {
				if was != nil && (c.Empty || was.Disk.Outdated(c.Node.Disk, c.Follows)) && slices.Contains(tp.Partitions[i].ISR, c.Node.ID) {
					t.Fatalf("%s/%d: %s is in sync with an empty or outdated disk", tp.Name, i, c.Node.ID)
				}
			}
		}
	case AlterISR:
		if c.Joiner != "" && s.Node(c.Joiner).Incarnation != c.JoinerIncarnation {
			t.Fatalf("%s joined as an earlier process", c.Joiner)
		}
	}
}

// startedNode returns the node of a NodeStarted as it was before.
func startedNode(s *State, c Command) *Node {
	if c, ok := c.(NodeStarted); ok {
		return s.Node(c.Node.ID)
	}
	return nil
}

// Equal histories give equal states, whether the commands came as values, as
// bytes, or half of them in a snapshot. Objects that were returned never
// change.
func TestRandomHistories(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(20) {
		r := random{rand.New(rand.NewPCG(seed, round))}
		var direct, decoded, restored State
		var image, then []byte
		var old *State
		done := 0
		const steps = 300
		for i := range uint64(steps) {
			c := r.command(&direct)
			was := startedNode(&direct, c)
			res := direct.Apply(i+1, c)
			if res.Err == nil {
				done++
				checkOutcome(t, &direct, was, c)
			} else if fate.Of(res.Err) != fate.Refused {
				t.Fatalf("%s: %v is not marked refused", NameOf(c), res.Err)
			}
			data, err := EncodeCommandAt(c, 0)
			if err != nil {
				t.Fatal(err)
			}
			c, err = DecodeCommand(data)
			if err != nil {
				t.Fatal(err)
			}
			decoded.Apply(i+1, c)
			restored.Apply(i+1, c)
			checkInvariants(t, &direct)
			if i == steps/2 {
				image = encode(t, &restored)
				s, err := DecodeSnapshot(bytes.NewReader(image))
				if err != nil {
					t.Fatal(err)
				}
				restored, old, then = *s, direct.Snapshot(), image
			}
		}
		want := encode(t, &direct)
		if !bytes.Equal(encode(t, &decoded), want) || !bytes.Equal(encode(t, &restored), want) {
			t.Fatalf("round %d: states differ", round)
		}
		if !bytes.Equal(encode(t, old), then) {
			t.Fatalf("round %d: a state that was handed out changed", round)
		}
		if done < steps/5 {
			t.Errorf("round %d: only %d of %d commands were done", round, done, steps)
		}
	}
}

func TestIndexIsAppliedOnce(t *testing.T) {
	var s State
	s.Apply(5, InitCluster{ID: "x"})
	for _, index := range []uint64{0, 4, 5} {
		if r := s.Apply(index, NodeStarted{Node: Node{ID: "n"}}); !errors.Is(r.Err, failure.StaleIndex) || s.Index() != 5 || s.NodeCount() != 0 {
			t.Errorf("index %d: %v, now %d", index, r.Err, s.Index())
		}
	}
}

func TestLimits(t *testing.T) {
	var s State
	index := uint64(0)
	apply := func(c Command) error { index++; return s.Apply(index, c).Err }
	for i := range maxNodes {
		if err := apply(NodeStarted{Node: Node{ID: NodeID(fmt.Sprintf("n%d", i))}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := apply(NodeStarted{Node: Node{ID: "more"}}); !errors.Is(err, failure.LimitReached) {
		t.Errorf("nodes: %v", err)
	}
	if err := apply(NodeStarted{Node: Node{ID: "n1"}}); err != nil {
		t.Errorf("a node that is known: %v", err)
	}
	c := TopicConfig{}.WithDefaults(1, false)
	if err := apply(CreateTopic{"t", c, [][]NodeID{{"n1"}}}); err != nil {
		t.Fatal(err)
	}
	for i := range maxChannels {
		if err := apply(CreateChannel{Topic: "t", Channel: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := apply(CreateChannel{Topic: "t", Channel: "more"}); !errors.Is(err, failure.LimitReached) {
		t.Errorf("channels: %v", err)
	}
	all := slices.Repeat([][]NodeID{{"n1"}}, seq.MaxPartitions)
	if err := apply(AddPartitions{Name: "t", Was: 1, Assignment: all}); !errors.Is(err, failure.LimitReached) {
		t.Errorf("partitions: %v", err)
	}
	if err := apply(AddPartitions{Name: "t", Was: 1, Assignment: all[1:]}); err != nil {
		t.Errorf("partitions: %v", err)
	}
	long := make([]byte, maxTextLength+1)
	if err := apply(NodeStarted{Node: Node{ID: "n1", Zone: string(long)}}); !errors.Is(err, failure.LimitReached) {
		t.Errorf("text: %v", err)
	}
	if _, err := EncodeCommandAt(ElectLeaders{[]Election{{Reason: string(make([]byte, MaxCommandBytes))}}}, 0); !errors.Is(err, failure.CommandTooLarge) {
		t.Errorf("size: %v", err)
	}
}

// TestEqualSuspectsAreElectable: where every in-sync replica is suspect, one of those that hold the
// most leads. Otherwise a partition whose nodes all restarted would wait for an operator.
func TestEqualSuspectsAreElectable(t *testing.T) {
	s := func(id NodeID, end seq.Offset) Suspect { return Suspect{Node: id, Epoch: 3, End: end} }
	missing := func(id NodeID) Suspect { return Suspect{Node: id, Missing: true} }
	isr := []NodeID{"a", "b", "c"}
	for _, tc := range []struct {
		suspects []Suspect
		want     []NodeID
	}{
		{nil, isr},
		{[]Suspect{s("a", 7), s("b", 7)}, []NodeID{"c"}},
		{[]Suspect{s("a", 7), s("b", 7), s("c", 7)}, isr},
		{[]Suspect{s("a", 7), s("b", 7), s("c", 6)}, []NodeID{"a", "b"}},
		{[]Suspect{s("a", 7), missing("b"), s("c", 6)}, []NodeID{"a"}},
		{[]Suspect{missing("a"), missing("b"), missing("c")}, nil},
	} {
		p := Partition{ISR: isr, Suspects: tc.suspects}
		var got []NodeID
		for _, id := range isr {
			if p.Electable(id) {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("with the suspects %+v, %v may lead, want %v", tc.suspects, got, tc.want)
		}
	}
	if p := (Partition{ISR: isr[:1]}); p.Electable("b") {
		t.Error("a replica that is not in sync may lead")
	}
}
