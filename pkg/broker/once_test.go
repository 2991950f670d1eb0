package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/once"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// putOnce publishes a message with a dedup id at a node.
func (l *lan) putOnce(id meta.NodeID, name, dedup string) topic.Receipt {
	l.t.Helper()
	got := make(chan topic.Receipt, 1)
	l.at(id).Router.Publish(l.t.Context(), publish.Request{
		Topic: name, Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x"), Dedup: []byte(dedup)}},
		Done: func(r topic.Receipt) { got <- r },
	})
	return <-got
}

func TestDedupIDIsStoredOnceAcrossNodesAndLeaders(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	for i, leader := range []meta.NodeID{"n1", "n2", "n3", "n1"} {
		l.elect("t", 0, leader)
		l.leader("t", 0)
		for _, at := range []meta.NodeID{"n2", "n1", "n3"} {
			for n, id := range []string{"a", "b"} {
				if r := l.putOnce(at, "t", id); r.Err != nil || r.First != seq.Offset(n) || r.Count != 1 {
					t.Fatalf("leader %d, at %s: %s is at %+v", i, at, id, r)
				}
			}
		}
	}
	if w := l.store.Topic("t").Config.DedupWindow; w != meta.DefaultDedupWindow {
		t.Errorf("the first id has set a window of %v", w)
	}
	if end := l.leader("t", 0).Host.Lookup("t").Led(0).Part.Log().End(); end != 2 {
		t.Errorf("%d are stored", end)
	}
}

func TestLeaderWithoutDedupWindowRefusesIDsForAWhile(t *testing.T) {
	n := newNode(t)
	if r := n.publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte("x")}}}); r.Err != nil {
		t.Fatal(r.Err)
	}
	h := n.Host.Lookup("t")
	err := h.Offer(h.Led(0), topic.Offered{Messages: []topic.Message{{Body: []byte("x"), Dedup: []byte("a")}}})
	if !errors.Is(err, failure.NoWindow) || fate.Of(err) != fate.Refused {
		t.Fatalf("error %v", err)
	}
	if err := forward.FromRemote(forward.ToRemote(err)); !host.Moving(err) {
		t.Error("it is not tried again")
	}
}

func TestPublishGoesToPartitionsOfItsKeys(t *testing.T) {
	n := newNode(t)
	if _, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 4, KeyFrom: "json:/k"}); err != nil {
		t.Fatal(err)
	}
	publish := func(bodies ...string) topic.Receipt {
		p := publish.Request{Topic: "t", Partition: host.AnyPartition}
		for _, b := range bodies {
			p.Messages = append(p.Messages, topic.Message{Body: []byte(b)})
		}
		return n.publish(p)
	}
	first := publish(`{"k":1}`, `{"k":2}`, `{"k":3}`, `{"k":1}`)
	again := publish(`{"k":3}`, `{"k":1}`)
	if first.Err != nil || again.Err != nil || first.Count != 4 || len(first.IDs) != 4 {
		t.Fatalf("%+v, %+v", first, again)
	}
	if first.ID(0).Partition() != first.ID(3).Partition() || again.ID(1).Partition() != first.ID(0).Partition() ||
		again.ID(0).Partition() != first.ID(2).Partition() || first.ID(0).Partition() == first.ID(1).Partition() {
		t.Errorf("%v, then %v", first.IDs, again.IDs)
	}
	if r := publish("no JSON"); r.Err != nil {
		t.Error(r.Err)
	}
}

func TestFullTopicRefusesOrDropsOldest(t *testing.T) {
	for _, onFull := range []meta.OnFull{meta.OnFullReject, meta.OnFullDrop} {
		n := newNodeWith(t, func(o *Options) { o.RetentionInterval = time.Hour })
		if _, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{MaxBytes: meta.MinQuota, OnFull: onFull}); err != nil {
			t.Fatal(err)
		}
		if err := n.Directory.CreateChannel(t.Context(), "t", "c", false); err != nil {
			t.Fatal(err)
		}
		stored := func() int64 { return n.Host.Lookup("t").Led(0).Part.Log().Bytes() }
		refused := 0
		for range 60 {
			r := n.publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: make([]byte, 100<<10)}}})
			if r.Err != nil && (!errors.Is(r.Err, failure.TopicFull) || fate.Of(forward.FromRemote(forward.ToRemote(r.Err))) != fate.Refused) {
				t.Fatal(r.Err)
			} else if r.Err != nil {
				refused++
			}
		}
		s := n.Node.TopicStats("t", "", false)[0]
		reported := func(code string) bool {
			return slices.ContainsFunc(n.bounds(), func(r health.Reason) bool { return r.Code == code })
		}
		full := reported("topics_full")
		if files := n.Host.Lookup("t").Led(0).Part.Log().Stats().Segments; onFull == meta.OnFullReject && files < 4 {
			t.Errorf("the log has %d files", files)
		}
		if onFull == meta.OnFullReject {
			if s.FullSince.IsZero() || stored() > meta.MinQuota || refused != 50 || s.Refused != 50 || s.Dropped != 0 || !full {
				t.Errorf("reject: %d bytes, %d and %d refused, %d dropped, full %v", stored(), refused, s.Refused, s.Dropped, full)
			}
			continue
		}
		eventually(t, func() bool {
			n.publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte("x")}}})
			s = n.Node.TopicStats("t", "", false)[0] // messages are counted after the deletion of their files
			return stored() <= meta.MinQuota && s.Dropped >= 45
		})
		if refused != 0 || s.Refused != 0 || full || !reported("unfinished_dropped") {
			t.Errorf("drop: %d and %d refused, full %v", refused, s.Refused, full)
		}
	}
}

// Consuming does not empty a topic that keeps finished messages: the health says so.
func TestHealthNamesFullTopicsThatKeepFinishedMessages(t *testing.T) {
	for retention, want := range map[time.Duration]bool{0: false, time.Hour: true} {
		n := newNodeWith(t, func(o *Options) { o.RetentionInterval = time.Hour })
		if _, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{MaxBytes: meta.MinQuota, RetentionAge: retention}); err != nil {
			t.Fatal(err)
		}
		var err error
		for i := 0; err == nil && i < 100; i++ {
			err = n.publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: make([]byte, 100<<10)}}}).Err
		}
		why := n.bounds()
		if len(why) != 1 || why[0].Code != "topics_full" || strings.HasSuffix(why[0].What, "shorten the retention or the dedup window of t") != want {
			t.Errorf("kept for %v: the health has %v after %v", retention, why, err)
		}
	}
}

// A topic in the trash does not count against the maximum of a new one of its name, and is as full as it was once
// it is restored.
func TestTrashDoesNotCountAgainstTheMaximum(t *testing.T) {
	n := newNodeWith(t, func(o *Options) { o.RetentionInterval = time.Hour })
	create := func() *meta.Topic {
		c, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{MaxBytes: meta.MinQuota})
		if err == nil {
			err = n.Directory.CreateChannel(t.Context(), "t", "c", false)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	fill := func() (stored int, err error) {
		for ; stored < 60 && err == nil; stored++ {
			err = n.publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: make([]byte, 100<<10)}}}).Err
		}
		return stored, err
	}
	old := create()
	first, err := fill()
	if !errors.Is(err, failure.TopicFull) {
		t.Fatal(err)
	}
	if err := n.Directory.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	now := create()
	if again, err := fill(); again != first || !errors.Is(err, failure.TopicFull) {
		t.Errorf("the new topic took %d messages, the old one %d: %v", again, first, err)
	}
	if _, err := n.Directory.Trash().Restore(t.Context(), meta.RestoreTopic{Name: "t", Incarnation: old.Incarnation, Replaces: now.Incarnation}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { _, err := fill(); return errors.Is(err, failure.TopicFull) })
	if s := n.Node.TopicStats("t", "", false); len(s) != 1 || s[0].LogBytes < meta.MinQuota/10*9 {
		t.Errorf("the restored topic: %+v", s)
	}
}

// TestUnfinishedMessagesBeyondRetentionAreReported: a topic with retention-bytes deletes what a slow
// consumer has not received. Operators must learn of it; topics without channels lose nothing.
func TestUnfinishedMessagesBeyondRetentionAreReported(t *testing.T) {
	n := newNodeWith(t, func(o *Options) { o.RetentionInterval = 10 * time.Millisecond })
	const bound = 400 << 10
	for _, name := range []string{"read", "archive"} {
		if _, err := n.Directory.CreateTopic(t.Context(), name, meta.TopicConfig{RetentionBytes: bound}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Directory.CreateChannel(t.Context(), "read", "slow", false); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		for _, name := range []string{"read", "archive"} {
			if r := n.publish(publish.Request{Topic: name, Messages: []topic.Message{{Body: make([]byte, 100<<10)}}}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	eventually(t, func() bool {
		return n.Host.Lookup("archive").Led(0).Part.Log().Bytes() <= bound && n.Node.TopicStats("read", "", false)[0].Dropped >= 26
	})
	if s := n.Node.TopicStats("archive", "", false)[0]; s.Dropped != 0 {
		t.Errorf("%d messages of a topic without channels count as unfinished", s.Dropped)
	}
	why := n.bounds()
	if len(why) != 1 || why[0].Code != "unfinished_dropped" || why[0].Count != 1 || !strings.Contains(why[0].What, "read") {
		t.Errorf("the health has %v", why)
	}
	if n.Host.Lookup("read").Disk.Dropping(time.Now().Add(time.Hour)) {
		t.Error("an hour later the topic still counts as one that drops messages")
	}
}

// bounds returns what the health of a node says about bounds that its topics have reached.
func (n *node) bounds() []health.Reason {
	return slices.DeleteFunc(n.Node.Health().Reasons, func(r health.Reason) bool {
		return r.Code != "topics_full" && r.Code != "unfinished_dropped" && r.Code != "dedup_window_short"
	})
}

// A topic that is filled with large messages refuses the next one with a fifth of its share free.
func TestTopicWithoutRoomForALargeMessageIsReported(t *testing.T) {
	n := newNode(t)
	if _, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{MaxBytes: meta.MinQuota}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		r := n.publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: make([]byte, meta.MinQuota*2/5)}}})
		if (r.Err != nil) != (i == 2) || i == 2 && !errors.Is(r.Err, failure.TopicFull) {
			t.Fatalf("message %d: %v", i, r.Err)
		}
	}
	if why := n.bounds(); len(why) != 1 || why[0].Code != "topics_full" || !strings.Contains(why[0].What, "t/0") {
		t.Errorf("the health: %+v", why)
	}
	if s := n.Node.TopicStats("t", "", false)[0]; s.RefusedSize < meta.MinQuota*2/5 {
		t.Errorf("%d bytes were refused", s.RefusedSize)
	}
}

func TestHealthReportsForgottenIDs(t *testing.T) {
	n := newNode(t)
	if _, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	h := n.Host.Lookup("t")
	lp := h.Led(0)
	if err := lp.Once.Set(once.Options{Partition: lp.Part, Window: time.Hour, Most: 3, Ages: lp.Replica.Ages()}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if why := n.bounds(); len(why) > 0 {
			t.Errorf("with %d ids: %v", i, why)
		}
		if err := h.Offer(lp, topic.Offered{Messages: []topic.Message{{Body: []byte("x"), Dedup: []byte{byte(i)}}}, Done: func(topic.Receipt) {}}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool {
		why := n.bounds()
		return len(why) == 1 && why[0].Code == "dedup_window_short"
	})
}
