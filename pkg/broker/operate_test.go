package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// council is the Members of a lan: every broker is a voter, though one store
// has all the metadata.
type council struct {
	store    *raftstore.Store
	config   raftstore.Configuration
	troubles []controller.Trouble
	silent   map[meta.NodeID]bool
	removed  []meta.NodeID
	moved    int
}

func (c *council) Members() raftstore.Configuration { return c.config }

func (c *council) RemoveMember(ctx context.Context, r meta.RemoveNode) error {
	c.removed = append(c.removed, r.ID)
	_, err := c.store.Propose(ctx, r)
	return err
}

func (c *council) TransferController(context.Context) error { c.moved++; return nil }

func (c *council) Answers(id meta.NodeID) bool { return !c.silent[id] }

func (c *council) Controller() (controller.Decision, bool) {
	return controller.Decision{Troubles: c.troubles}, true
}

// newGovernedLan starts brokers that know the members of the metadata's Raft
// group.
func newGovernedLan(t *testing.T, ids ...meta.NodeID) (*lan, *council) {
	t.Helper()
	c := &council{}
	for _, id := range ids {
		c.config.Members = append(c.config.Members, raftstore.Member{ID: id, Address: string(id) + ":4152", Voter: true})
	}
	l := newLan(t, func(o *Options) { o.Members, c.store = c, o.Meta }, ids...)
	return l, c
}

// spread creates a topic with partitions on different leaders.
func (l *lan) spread(name string, leaders ...meta.NodeID) {
	l.t.Helper()
	cfg := meta.TopicConfig{Partitions: len(leaders), Replicas: 1}.WithDefaults(1, false)
	assignment := make([][]meta.NodeID, len(leaders))
	for i, id := range leaders {
		assignment[i] = []meta.NodeID{id}
	}
	if _, err := l.store.Propose(l.t.Context(), meta.CreateTopic{Name: name, Config: cfg, Assignment: assignment}); err != nil {
		l.t.Fatal(err)
	}
	for i := range leaders {
		l.leader(name, i)
	}
}

func TestAnyNodeAnswersForTheWholeCluster(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.spread("t", "n1", "n2", "n2")
	if err := l.at("n3").Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		l.mustPut("t", i, fmt.Sprint("a", i), fmt.Sprint("b", i))
	}
	for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
		b := l.at(id)
		stats := b.Contents.ClusterStats(ctx, "t", "", false)
		if len(stats) != 1 || stats[0].Messages != 6 || len(stats[0].Partitions) != 3 || len(stats[0].Channels) != 1 {
			t.Fatalf("%s: %+v", id, stats)
		}
		for i, p := range stats[0].Partitions {
			if p.Partition != i || p.CommittedEnd != 2 || p.Leader != []string{"n1", "n2", "n2"}[i] {
				t.Errorf("%s: partition %d: %+v", id, i, p)
			}
		}
		if c := stats[0].Channels[0]; c.Depth != 6 || len(c.Partitions) != 3 {
			t.Errorf("%s: channel %+v", id, c)
		}
		if all := b.Contents.ClusterStats(ctx, "", "", false); len(all) != 1 || all[0].Messages != 6 {
			t.Errorf("%s: all: %+v", id, all)
		}
		seen, err := b.Contents.Peek(ctx, operate.Peek{Topic: "t", Channel: "c", Partition: host.AnyPartition, Max: 5})
		if err != nil || len(seen) != 5 || seen[4].Partition != 2 || string(seen[2].Body) != "a1" {
			t.Errorf("%s: peek: %+v, %v", id, seen, err)
		}
	}
	if got := l.at("n3").Node.TopicStats("", "", false); len(got) != 0 {
		t.Errorf("n3 leads nothing and says %+v", got)
	}

	end := operate.SeekTo{End: true}
	start := operate.SeekTo{Start: true}
	depth := func() int64 { return l.at("n3").Contents.ClusterStats(ctx, "t", "c", false)[0].Channels[0].Depth }
	steps := []struct {
		what string
		do   func() error
		want int64
	}{
		{"seek to the end", func() error { return l.at("n3").Contents.SeekChannel(ctx, "t", "c", end) }, 0},
		{"seek to the start", func() error { return l.at("n1").Contents.SeekChannel(ctx, "t", "c", start) }, 6},
		{"empty", func() error { return l.at("n3").Contents.EmptyChannel(ctx, "t", "c") }, 0},
	}
	for _, s := range steps {
		if err := s.do(); err != nil || depth() != s.want {
			t.Errorf("%s: %v, depth %d, want %d", s.what, err, depth(), s.want)
		}
	}
	if err := l.at("n3").Contents.EmptyChannel(ctx, "t", "nope"); !errors.Is(err, failure.ChannelNotFound) {
		t.Errorf("empty of no channel: %v", err)
	}
	if err := l.at("n3").Contents.SeekChannel(ctx, "nope", "c", end); !errors.Is(err, failure.TopicNotFound) {
		t.Errorf("seek in no topic: %v", err)
	}
	if _, err := l.at("n3").Contents.Peek(ctx, operate.Peek{Topic: "t", Partition: 9}); !errors.Is(err, failure.PartitionNotFound) {
		t.Errorf("peek at no partition: %v", err)
	}
}

func TestChannelIsPausedAndDeletedFromNonLeader(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.spread("t", "n1", "n2")
	b := l.at("n3")
	for _, channel := range []string{"c", "c#ephemeral"} {
		for _, id := range []meta.NodeID{"n1", "n2"} {
			if err := l.at(id).Directory.CreateChannel(ctx, "t", channel, false); err != nil {
				t.Fatal(err)
			}
		}
		paused := func() bool { return b.Contents.ClusterStats(ctx, "t", channel, false)[0].Channels[0].Paused }
		if err := b.Contents.PauseChannel(ctx, "t", channel, true); err != nil || !paused() {
			t.Errorf("%s: pause: %v", channel, err)
		}
		if err := b.Contents.PauseChannel(ctx, "t", channel, false); err != nil || paused() {
			t.Errorf("%s: resume: %v", channel, err)
		}
		if err := b.Contents.DeleteChannel(ctx, "t", channel); err != nil {
			t.Errorf("%s: delete: %v", channel, err)
		}
		if got := b.Contents.ClusterStats(ctx, "t", channel, false)[0].Channels; len(got) != 0 {
			t.Errorf("%s: still there: %+v", channel, got)
		}
		if err := b.Contents.DeleteChannel(ctx, "t", channel); !errors.Is(err, failure.ChannelNotFound) {
			t.Errorf("%s: delete again: %v", channel, err)
		}
	}
}

func TestRemotePeekIsSentInParts(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2")
	l.spread("t", "n1")
	large := string(make([]byte, 2*operate.PeekBytes/5))
	l.mustPut("t", 0, large, large, large, "more")
	seen, err := l.at("n2").Contents.Peek(t.Context(), operate.Peek{Topic: "t", Partition: 0, Max: 3})
	if err != nil || len(seen) != 3 {
		t.Fatalf("%d messages, %v", len(seen), err)
	}
	for i, m := range seen {
		if int(m.Offset) != i || len(m.Body) != len(large) {
			t.Errorf("message %d is at %d with %d bytes", i, m.Offset, len(m.Body))
		}
	}
}

func TestPeekChoosesByState(t *testing.T) {
	n := newNode(t)
	c := n.subscribe("t", "c")
	n.put("t", "a1", "b1", "a2", "b2")
	took := c.takeSome(3)
	if err := errors.Join(c.Finish(took[0].ID), c.Requeue(took[1].ID, 5*time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		state  api.PeekState
		filter string
		from   *seq.Offset
		max    int
		want   string
	}{
		{api.PeekReady, "", nil, 9, "b2"},
		{api.PeekInFlight, "", nil, 9, "a2"},
		{api.PeekDeferred, "", nil, 9, "b1"},
		{api.PeekExhausted, "", nil, 9, ""},
		{api.PeekReady, "", new(seq.Offset(3)), 9, "b2"},
		{api.PeekDeferred, "attempts > 5", nil, 9, ""},
		{api.PeekDeferred, "attempts == 1", nil, 1, "b1"},
		{api.PeekReady, "attempts == 1", nil, 9, ""},
		{"", "", nil, 1, "b1"},
	} {
		seen, err := n.Contents.Peek(t.Context(), operate.Peek{
			Topic: "t", Channel: "c", Partition: host.AnyPartition, Max: test.max, State: test.state, Filter: test.filter, From: test.from,
		})
		got := ""
		for _, m := range seen {
			got += string(m.Body)
		}
		if got != test.want || err != nil {
			t.Errorf("%s, %q: %q, %v, want %q", test.state, test.filter, got, err, test.want)
		}
	}
}

func TestPeekIsBoundedByBytes(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2")
	l.spread("t", "n1", "n1")
	for p := range 2 {
		l.mustPut("t", p, "1234567", "1234567", "1234567")
	}
	for bytes, want := range map[int]int{1: 1, 7: 1, 8: 2, 21: 3, 22: 4, 0: 6} {
		for _, id := range []meta.NodeID{"n1", "n2"} {
			seen, err := l.at(id).Contents.Peek(t.Context(), operate.Peek{Topic: "t", Partition: host.AnyPartition, Bytes: bytes})
			if err != nil || len(seen) != want {
				t.Errorf("%s, of %d bytes: %d messages, %v, want %d", id, bytes, len(seen), err, want)
			}
		}
		seen, err := l.at("n1").Node.PeekHere(t.Context(), operate.Peek{Topic: "t", Partition: host.AnyPartition, Bytes: bytes})
		if err != nil || len(seen) != want {
			t.Errorf("alone, of %d bytes: %d messages, %v, want %d", bytes, len(seen), err, want)
		}
	}
}

func TestVerifyComparesAllReplicas(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, "a", "b", "c")
	for _, id := range []meta.NodeID{"n1", "n3"} {
		l.eventually("a digest of what is committed everywhere", func() bool {
			d, err := l.at(id).Contents.Digest(ctx, "t")
			if err != nil || len(d) != 1 {
				t.Fatalf("%s: %+v, %v", id, d, err)
			}
			return d[0].CommittedEnd == 3 && len(d[0].Digests) == 3 &&
				d[0].Digests["n1"] == d[0].Digests["n2"] && d[0].Digests["n1"] == d[0].Digests["n3"]
		})
	}
	l.kill("n2")
	d, err := l.at("n3").Contents.Digest(ctx, "t")
	if err != nil || d[0].Digests["n1"] == "" || d[0].Digests["n2"] != "" || len(d[0].Unreadable) > 0 || d[0].Compared() == "NO" {
		t.Errorf("with a replica that is gone: %+v, %v", d, err)
	}
	if in := slices.Contains(l.store.Topic("t").Partitions[0].ISR, "n2"); in && !slices.Equal(d[0].MissingNodes, []string{"n2"}) {
		t.Errorf("with a replica that is gone and counts as in sync: %+v", d)
	}
	if _, err := l.at("n1").Contents.Digest(ctx, "nope"); !errors.Is(err, failure.TopicNotFound) {
		t.Errorf("no topic: %v", err)
	}
}

func TestOperatorChoosesLeader(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3", "n4")
	ctx := t.Context()
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	x := newLoad(l, "n4", "t", 2)
	for _, to := range []meta.NodeID{"n2", "n2", "n3", "n1"} {
		if err := l.at("n4").Operator.TransferLeader(ctx, "t", 0, to); err != nil {
			t.Errorf("to %s: %v", to, err)
		}
		if got := l.store.Topic("t").Partitions[0].Leader; got != to {
			t.Errorf("led by %s, want %s", got, to)
		}
	}
	if err := l.at("n1").Operator.TransferLeader(ctx, "t", 0, ""); err != nil || l.store.Topic("t").Partitions[0].Leader == "n1" {
		t.Errorf("to anybody, asked of the leader: %v", err)
	}
	x.end()
	if len(x.failed) > 0 {
		t.Errorf("%d publishes failed, the first: %v", len(x.failed), x.failed[0])
	}
	for to, want := range map[meta.NodeID]error{"n9": failure.NodeNotFound, "n4": failure.NotInISR} {
		if err := l.at("n4").Operator.TransferLeader(ctx, "t", 0, to); !errors.Is(err, want) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	if err := l.at("n4").Operator.TransferLeader(ctx, "t", 3, "n1"); !errors.Is(err, failure.PartitionNotFound) {
		t.Errorf("of no partition: %v", err)
	}
	if err := l.at("n4").Operator.TransferLeader(ctx, "u", 0, "n1"); !errors.Is(err, failure.TopicNotFound) {
		t.Errorf("of no topic: %v", err)
	}
}

func TestPartitionIsDescribedWithItsCopies(t *testing.T) {
	l, c := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, "a", "b")
	c.troubles = []controller.Trouble{
		{Kind: controller.TroubleDrain, PartitionID: meta.PartitionID{Topic: "t"}, Nodes: []meta.NodeID{"n1"}},
		{Kind: controller.TroubleDrain, PartitionID: meta.PartitionID{Topic: "u"}},
	}
	d, err := l.at("n3").Operator.DescribePartition(ctx, "t", 0)
	if err != nil || d.Leader != "n1" || d.LogEnd != 2 || len(d.Copies) != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
	for i, x := range d.Copies {
		if !x.Answered || !x.InSync || x.LogEnd != 2 || x.Seen != (i > 0) {
			t.Errorf("copy %+v", x)
		}
	}
	if f := d.Copies[1]; !f.Connected || f.Acked != 2 || f.Lag != 0 || f.BehindFor != 0 {
		t.Errorf("follower %+v", f)
	}
	all := slices.Collect(l.at("n1").Operator.Followers)
	if len(all) != 2 || all[0].Node != "n2" || all[0].Topic != "t" || all[0].Partition != 0 || all[0].Lag != 0 || all[0].Acked != 2 {
		t.Errorf("followers %+v", all)
	}
	if got := slices.Collect(l.at("n2").Operator.Followers); len(got) != 0 {
		t.Errorf("a follower's followers: %+v", got)
	}
}

func TestMoveIsStartedAndCancelled(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2")
	l.inSync("t", 0, 2)
	b := l.at("n3")
	if err := b.Operator.CancelMove(ctx, "t", 0); !errors.Is(err, failure.NotMoving) {
		t.Errorf("nothing to take back: %v", err)
	}
	if err := b.Operator.MovePartition(ctx, "t", 0, []meta.NodeID{"n1", "n9"}, true); !errors.Is(err, failure.NodeNotFound) {
		t.Errorf("to no node: %v", err)
	}
	if err := b.Operator.MovePartition(ctx, "t", 0, []meta.NodeID{"n1", "n3"}, true); err != nil {
		t.Fatal(err)
	}
	if d, err := b.Operator.DescribePartition(ctx, "t", 0); err != nil || len(d.Adding)+len(d.Removing) > 0 {
		t.Errorf("a dry run has begun a move: %+v, %v", d, err)
	}
	if err := b.Operator.MovePartition(ctx, "t", 0, []meta.NodeID{"n1", "n3"}, false); err != nil {
		t.Fatal(err)
	}
	d, err := b.Operator.DescribePartition(ctx, "t", 0)
	if err != nil || !slices.Equal(d.Removing, []string{"n2"}) || !slices.Equal(d.Replicas, []string{"n1", "n3", "n2"}) || d.Left.Moving != 1 {
		t.Errorf("moving: %+v, %v", d, err)
	}
	err = b.Operator.CancelMove(ctx, "t", 0)
	for errors.Is(err, failure.StaleVersion) { // n3 has joined meanwhile: retry, as the error says
		err = b.Operator.CancelMove(ctx, "t", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if p := l.store.Topic("t").Partitions[0]; slices.Contains(p.Target(), "n3") {
		t.Errorf("taken back: %+v", p)
	}
}

func TestTopicGetsRequestedReplicas(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1")
	l.mustPut("t", 0, "a", "b")
	b := l.at("n2")
	set := func(replicas, minISR int) error {
		return b.Directory.AlterTopic(ctx, "t", func(c *meta.TopicConfig) { c.Replicas, c.MinISR = replicas, minISR })
	}
	if err := set(4, 2); !errors.Is(err, failure.TooFewNodes) {
		t.Errorf("more than there are nodes: %v", err)
	}
	if err := set(3, 2); err != nil {
		t.Fatal(err)
	}
	few := func(r health.Reason) bool { return r.Code == "partitions_few_replicas" }
	if h := b.Operator.ClusterHealth(ctx); h.Healthy || !slices.ContainsFunc(h.Reasons, few) {
		t.Errorf("one replica of three: %+v", h)
	}
	if waiting, err := b.Operator.FitReplicas(ctx, "t"); waiting != 0 || err != nil {
		t.Fatal(waiting, err)
	}
	l.inSync("t", 0, 3)
	p := l.store.Topic("t").Partitions[0]
	if _, err := l.store.Propose(ctx, meta.FinishReassign{Topic: "t", Partition: 0, Version: p.Version}); err != nil {
		t.Fatal(err)
	}
	l.mustPut("t", 0, "c")
	l.eventually("three equal copies", func() bool {
		d, err := b.Contents.Digest(ctx, "t")
		return err == nil && d[0].CommittedEnd == 3 && len(d[0].Digests) == 3 && d[0].Digests["n1"] == d[0].Digests["n3"]
	})
	if err := set(2, 3); !errors.Is(err, failure.InvalidConfig) {
		t.Errorf("a min ISR above the replicas: %v", err)
	}
	if err := set(2, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Operator.FitReplicas(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if p := l.store.Topic("t").Partitions[0]; len(p.Target()) != 2 || p.Target()[0] != "n1" {
		t.Errorf("fewer: %+v", p)
	}
}

func TestUncleanElectionElectsNamedReplica(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2")
	l.inSync("t", 0, 2)
	l.kill("n1") // it would take n2 back
	p := l.store.Topic("t").Partitions[0]
	if _, err := l.store.Propose(ctx, meta.AlterISR{Topic: "t", Partition: 0, Epoch: p.Epoch, Version: p.Version, ISR: []meta.NodeID{"n1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.store.Propose(ctx, meta.SetNodeState{ID: "n1", State: meta.NodeDown}); err != nil {
		t.Fatal(err)
	}
	l.elect("t", 0, "")
	b := l.at("n3")
	l.create("led", "n3")
	if err := b.Operator.ElectLeader(ctx, "led", 0, "", false); !errors.Is(err, failure.NoOtherInSync) || !strings.Contains(err.Error(), "(leader n3, in sync [n3])") {
		t.Errorf("for a partition with one replica: %v", err)
	}
	if err := b.Operator.ElectLeader(ctx, "t", 0, "n2", false); !errors.Is(err, failure.NotInISR) {
		t.Errorf("a clean election: %v", err)
	}
	if err := b.Operator.ElectLeader(ctx, "t", 0, "n3", true); !errors.Is(err, failure.NotInISR) {
		t.Errorf("of one that holds nothing: %v", err)
	}
	if err := b.Operator.ElectLeader(ctx, "t", 0, "n2", true); err != nil {
		t.Fatal(err)
	}
	if p := l.store.Topic("t").Partitions[0]; p.Leader != "n2" || !slices.Equal(p.ISR, []meta.NodeID{"n2"}) {
		t.Errorf("elected: %+v", p)
	}
}

func TestBalanceRestoresLeadersAndSpreadsReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newGovernedLan(t, "n1", "n2", "n3")
		ctx := t.Context()
		for i := range 4 {
			name := fmt.Sprint("t", i)
			l.create(name, "n1", "n2")
			l.mustPut(name, 0, "a") // both have it
			l.elect(name, 0, "n2")
			l.leader(name, 0)
		}
		b := l.at("n3")
		plan := b.Operator.PlanBalance()
		if len(plan.Leaders) != 4 || plan.Leaders[0] != (api.LeaderMove{Topic: "t0", Partition: 0, From: "n2", To: "n1"}) || len(plan.Moves) == 0 {
			t.Fatalf("plan %+v", plan)
		}
		if want := []api.NodeLoad{{ID: "n1", State: "up", Zone: "", Leaders: 0, Preferred: 4, Replicas: 4}, {ID: "n2", State: "up", Zone: "", Leaders: 4, Preferred: 0, Replicas: 4}, {ID: "n3", State: "up", Zone: "", Leaders: 0, Preferred: 0, Replicas: 0}}; !cmp.Equal(plan.Nodes, want) {
			t.Errorf("loads %+v", plan.Nodes)
		}
		done, err := b.Operator.StartBalance(ctx, api.StartBalance{Leaders: true})
		if err != nil || len(done.Leaders) != 4 || len(done.Moves) != 0 || len(b.Operator.PlanBalance().Leaders) != 0 {
			t.Errorf("leaders: %+v, %v", done, err)
		}
		done, err = b.Operator.StartBalance(ctx, api.StartBalance{Replicas: true, Limit: 1})
		if err != nil || len(done.Leaders) != 0 || len(done.Moves) != 1 || b.Contents.Placement().Moving != 1 {
			t.Errorf("replicas: %+v, %v", done, err)
		}
	})
}

func TestEveryMemberReportsItsRaftState(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	l.stop("n3")
	r := l.at("n2").Operator.Raft(t.Context())
	if r.Voters != 3 || r.Tolerance != 0 || len(r.Members) != 3 || !r.Members[0].Answered || !r.Members[1].Answered || r.Members[2].Answered {
		t.Errorf("%+v", r)
	}
	if _, err := l.store.Propose(t.Context(), meta.SetNodeState{ID: "n3", State: meta.NodeDown}); err != nil {
		t.Fatal(err)
	}
	if got := l.at("n2").Operator.Tolerance(); got != 0 {
		t.Errorf("with one down: %d", got)
	}
}

func TestRequestFindsNextLeader(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	l.create("t", "n1", "n2")
	l.inSync("t", 0, 2)
	l.mustPut("t", 0, "a")
	l.kill("n1")
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		timer := time.NewTimer(50 * time.Millisecond) // between the first try and the second
		<-timer.C
		l.failOver("n1")
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen, err := l.at("n3").Contents.Peek(ctx, operate.Peek{Topic: "t", Partition: 0})
	<-moved
	if err != nil || len(seen) != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
}
