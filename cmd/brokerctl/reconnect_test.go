package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// failingOver is a cluster of two nodes. The first leads and soon stops.
func failingOver(t *testing.T, first, second *fakeNSQ, partitions int) *fakeBroker {
	t.Helper()
	b := newFakeBroker(t)
	asked := 0
	topic := func(leader string) api.Topic {
		out := api.Topic{Name: "orders"}
		for i := range partitions {
			out.Partitions = append(out.Partitions, api.Partition{Partition: i, Leader: leader})
		}
		return out
	}
	b.set("GET /v1/topics/orders", func(*http.Request, []byte) any {
		if asked++; asked <= 2 { // the other node does not notice at once
			return topic("n1")
		}
		return topic("n2")
	})
	looked := 0
	b.set("GET /lookup", func(*http.Request, []byte) any {
		if looked++; looked <= 2 {
			return producersAt(t, first.address)
		}
		return producersAt(t, second.address)
	})
	b.set("GET /v1/topics/orders/channels/c", api.Channel{Topic: "orders", Name: "c"})
	b.set("GET /v1/cluster", api.Cluster{Nodes: []api.Node{{ID: "n1", TCPAddress: first.address}, {ID: "n2", TCPAddress: second.address}}})
	return b
}

// When the node of a tail stops, the tail continues at the next leader and reports that.
func TestTailContinuesWhenItsNodeStops(t *testing.T) {
	first, second := newFakeNSQ(t, "one", "two"), newFakeNSQ(t, "three", "four")
	first.dieAfter = 2
	r := failingOver(t, first, second, 1).brokerctl(t, "message", "tail", "orders/c", "-n", "4")
	if r.exit != exitOK || r.stdout != "one\ntwo\nthree\nfour\n" {
		t.Errorf("exit %d, stdout %q", r.exit, r.stdout)
	}
	for _, want := range []string{"connection to " + first.address + " lost", "connected to " + second.address} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("stderr %q lacks %q", r.stderr, want)
		}
	}
}

// A consumer of a deleted channel does not create it again.
func TestTailEndsWithItsChannel(t *testing.T) {
	first, second := newFakeNSQ(t, "one"), newFakeNSQ(t, "two")
	first.dieAfter = 1
	b := failingOver(t, first, second, 1)
	b.set("GET /v1/topics/orders/channels/c", api.Error{Code: failure.NotFound, Message: "not found"})
	if r := b.brokerctl(t, "message", "tail", "orders/c"); r.exit != failure.ExitNotFound || !strings.Contains(r.stderr, "channel orders/c was deleted") {
		t.Errorf("exit %d, stderr %q", r.exit, r.stderr)
	}
}

// When the node of a bench stops, the bench continues at another node: unanswered publishes count
// as failed, and all others are published.
func TestBenchContinuesWhenItsNodeStops(t *testing.T) {
	first, second := newFakeNSQ(t), newFakeNSQ(t)
	first.dieAfter = 10
	r := failingOver(t, first, second, 1).brokerctl(t, "bench", "pub", "orders", "--messages", "100", "--batch", "1", "--window", "1")
	stored, _, _ := first.outcome()
	more, _, _ := second.outcome()
	if r.exit != failure.ExitPartial || stored != 9 || more != 90 || !strings.Contains(r.stdout, "published 99") || !strings.Contains(r.stdout, "1 failed") {
		t.Errorf("exit %d, stdout %q, stored %d and %d", r.exit, r.stdout, stored, more)
	}
	if !strings.Contains(r.stderr, "connected to "+second.address) {
		t.Errorf("stderr %q", r.stderr)
	}
}

// A tail of a topic continues with the responding nodes, names the others, and shows their messages
// when they respond again.
func TestTopicTailNamesUnseenPartitions(t *testing.T) {
	b := newFakeBroker(t)
	asked := 0
	b.set("GET /v1/topics/orders", func(*http.Request, []byte) any {
		asked++
		out := api.Topic{Name: "orders", Partitions: []api.Partition{
			{Partition: 0, Leader: "n1", CommittedEnd: 1}, {Partition: 1, Leader: "n2", CommittedEnd: 1},
		}}
		switch {
		case asked <= 2:
			out.Partitions[1] = api.Partition{Partition: 1, Leader: "n2", MissingNodes: []string{"n2"}}
			out.MissingNodes = []string{"n2"}
		case asked == 3:
			return api.Error{Code: failure.Unavailable, Message: "no answer from n1"}
		}
		return out
	})
	text := func(s string) *string { return &s }
	peeks := 0
	b.set("GET /v1/topics/orders/messages", func(*http.Request, []byte) any {
		peeks++
		body := fmt.Sprint("message ", peeks)
		return api.PeekedList{Messages: []api.Peeked{{Partition: peeks - 1, Body: []byte(body), Text: text(body)}}}
	})
	r := b.brokerctl(t, "message", "tail", "orders", "--from", "start", "-n", "2")
	if r.exit != exitOK || r.stdout != "message 1\nmessage 2\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", r.exit, r.stdout, r.stderr)
	}
	for _, want := range []string{"no answer from n2", "no answer from n1: retrying", "all partitions respond again"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("stderr %q lacks %q", r.stderr, want)
		}
	}
}

// A newly elected leader knows a lower committed end than the previous one: if its filter selects
// nothing up to there, that is not the end of the requested range.
func TestFilteredTailSkipsNothingAfterElection(t *testing.T) {
	b := newFakeBroker(t)
	epochs := []uint64{1, 2} // as in the topic's description
	b.set("GET /v1/topics/orders", func(*http.Request, []byte) any {
		epoch := epochs[0]
		if len(epochs) > 1 {
			epochs = epochs[1:]
		}
		return api.Topic{Name: "orders", Partitions: []api.Partition{{Leader: "n1", Epoch: epoch, CommittedEnd: 1000}}}
	})
	asked := 0
	b.set("GET /v1/topics/orders/messages", func(r *http.Request, _ []byte) any {
		if r.URL.Query().Get("from") != "0" {
			return api.PeekedList{} // whether the filter is valid
		}
		if asked++; asked == 1 {
			return api.PeekedList{}
		}
		text := "found"
		return api.PeekedList{Messages: []api.Peeked{{Seq: 990, Body: []byte(text), Text: &text}}}
	})
	r := b.brokerctl(t, "message", "tail", "orders", "--from", "start", "-n", "1", "--filter", "size > 1")
	if r.exit != exitOK || r.stdout != "found\n" || asked != 2 {
		t.Errorf("exit %d, stdout %q, stderr %q, asked %d times", r.exit, r.stdout, r.stderr, asked)
	}
}

// A filter and a tag are evaluated by the nodes. If they select nothing of the examined messages,
// the next request begins after those.
func TestTopicTailRequestsFilteredMessages(t *testing.T) {
	b := newFakeBroker(t)
	const most = api.MaxFiltered
	b.set("GET /v1/topics/orders", api.Topic{Name: "orders", Partitions: []api.Partition{{Leader: "n1", CommittedEnd: 2*most + 7}}})
	var asked []string
	b.set("GET /v1/topics/orders/messages", func(r *http.Request, _ []byte) any {
		q := r.URL.Query()
		asked = append(asked, q.Get("from")+" "+q.Get("filter"))
		text := "found"
		if q.Get("from") != fmt.Sprint(2*most) {
			return api.PeekedList{}
		}
		return api.PeekedList{Messages: []api.Peeked{{Seq: 2*most + 3, Body: []byte(text), Text: &text}}}
	})
	r := b.brokerctl(t, "message", "tail", "orders", "--from", "start", "-n", "1", "--tag", "vip", "--filter", "size > 1 || false")
	const chosen = ` tag == "vip" && (size > 1 || false)`
	if want := []string{"0" + chosen, fmt.Sprint(most) + chosen, fmt.Sprint(2*most) + chosen}; r.exit != exitOK || r.stdout != "found\n" || !slices.Equal(asked[1:min(4, len(asked))], want) {
		t.Errorf("exit %d, stdout %q, stderr %q, asked %q", r.exit, r.stdout, r.stderr, asked)
	}
}
