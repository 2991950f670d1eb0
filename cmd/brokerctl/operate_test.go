package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// inTurn answers with one value after another, and then repeats the last one.
func inTurn[T any](all ...T) func(*http.Request, []byte) any {
	next := 0
	return func(*http.Request, []byte) any {
		v := all[min(next, len(all)-1)]
		next++
		return v
	}
}

func TestWaitReportsRemainingWork(t *testing.T) {
	full, half, empty := leavingNode(), leavingNode(), leavingNode()
	full.Troubles, half.Troubles, empty.Troubles = nil, nil, nil
	half.Replicas, half.Leaders = 1, 0
	empty.Replicas, empty.Leaders, empty.Removable, empty.Left = 0, 0, true, api.Progress{}
	b := newFakeBroker(t)
	b.set("GET /v1/nodes/n2", inTurn(full, full, full, half, empty))
	r := b.brokerctl(t, "node", "decommission", "n2", "--yes", "--wait")
	if r.exit != exitOK || !strings.HasSuffix(r.stdout, "n2 holds nothing; next: stop it, then brokerctl node remove n2\n") {
		t.Errorf("exit %d, %q", r.exit, r.stdout)
	}
	want := "09:14:02  n2 holds 2 replicas, 1 moving, 1.2 GiB to copy at 50.0 MiB/s, 25s left\n" +
		"09:14:02  n2 holds 1 replica, 1 moving, 1.2 GiB to copy at 50.0 MiB/s, 25s left\n"
	if r.stderr != want {
		t.Errorf("told %q, want %q", r.stderr, want)
	}

	b.set("GET /v1/nodes/n2", inTurn(full, half))
	r = b.brokerctl(t, "node", "drain", "n2", "--wait", "--stopping")
	if r.exit != exitOK || r.stderr != "09:14:02  n2 leads 1 partition\n" {
		t.Errorf("drain: exit %d, told %q", r.exit, r.stderr)
	}

	going, gone := movingPartition(), movingPartition()
	gone.Adding, gone.Removing = nil, nil
	b.set("GET /v1/topics/orders/partitions/0", inTurn(going, going, gone))
	r = b.brokerctl(t, "partition", "move", "orders/0", "--cancel", "--wait")
	if r.exit != exitOK || !strings.Contains(r.stderr, "orders/0: adding n4, removing n2, 1.2 GiB to copy") {
		t.Errorf("move: exit %d, told %q", r.exit, r.stderr)
	}
	if got := b.changes(); !slices.Contains(got, "DELETE /v1/topics/orders/partitions/0/move") {
		t.Errorf("asked %q", got)
	}
}

// The deleted topics on a leaving node are reported before and after.
func TestDecommissionReportsDeletedTopics(t *testing.T) {
	n := leavingNode()
	n.DeletedTopics, n.OnlyCopies = 3, []string{"a", "b"}
	b := newFakeBroker(t)
	b.set("GET /v1/nodes/n2", n)
	b.set("POST /v1/nodes/n2/decommission", n)
	r := b.brokerctl(t, "node", "decommission", "n2")
	if want := "Of deleted topics, it has copies of 3 that can be restored; these copies are not moved and are lost with the node. " +
		"Without it these are lost: a b; to keep one, restore it first"; !strings.Contains(r.stderr, want) {
		t.Errorf("asked with %q, want %q in it", r.stderr, want)
	}
	for _, args := range [][]string{{"node", "decommission", "n2", "--yes"}, {"node", "describe", "n2"}} {
		if r := b.brokerctl(t, args...); r.exit != exitOK || !strings.Contains(r.stdout, "deleted topics: it has copies of 3") {
			t.Errorf("%q: exit %d, %q", args, r.exit, r.stdout)
		}
	}
}

// The removal of a node names the deleted topics that are lost with it, before and after.
func TestRemovalReportsOnlyCopies(t *testing.T) {
	n := leavingNode()
	n.DeletedTopics, n.OnlyCopies, n.Removable = 3, []string{"a", "b"}, true
	b := newFakeBroker(t)
	b.set("GET /v1/nodes/n2", n)
	b.set("DELETE /v1/nodes/n2", func(r *http.Request, _ []byte) any {
		if r.URL.Query().Get("lose_deleted") != "true" {
			return api.Error{Code: failure.Precondition, Message: "node n2: only copy of deleted topics: a b", Fate: "refused"}
		}
		return nil
	})
	if r := b.brokerctl(t, "node", "remove", "n2", "--yes"); r.exit != failure.ExitRefused {
		t.Errorf("removed with the only copies: exit %d, %q", r.exit, r.stdout)
	}
	r := b.brokerctl(t, "node", "remove", "n2", "--lose-deleted")
	if r.exit != failure.ExitUsage || !strings.Contains(r.stderr, "only copy of deleted topics, which cannot be restored then: a b;") {
		t.Errorf("exit %d, asked with %q", r.exit, r.stderr)
	}
	if r := b.brokerctl(t, "node", "remove", "n2", "--lose-deleted", "--dry-run"); r.exit != exitOK || !strings.HasPrefix(r.stdout, "dry run: removing n2") {
		t.Errorf("dry run: exit %d, %q", r.exit, r.stdout)
	}
	for _, change := range b.changes() {
		if !strings.Contains(change, "dry_run=true") {
			t.Errorf("%q before it was confirmed", change)
		}
	}
	if r := b.brokerctl(t, "node", "remove", "n2", "--lose-deleted", "--yes"); r.exit != exitOK || r.stdout != "node n2 removed\ndeleted topics that can no longer be restored: a b\n" {
		t.Errorf("exit %d, %q", r.exit, r.stdout)
	}
	if r := b.brokerctl(t, "node", "remove", "n2", "--lose-deleted", "--yes", "-o", "json"); r.stdout != `{"node":"n2","action":"removed","lost_deleted_topics":["a","b"]}`+"\n" {
		t.Errorf("%q", r.stdout)
	}
	b.set("POST /v1/nodes/n2/decommission", n)
	if r := b.brokerctl(t, "node", "decommission", "n2", "--yes"); !strings.Contains(r.stdout, "n2 holds nothing but the only copy of deleted topics (a b); next:") {
		t.Errorf("decommission says %q", r.stdout)
	}
	asked := len(b.changes())
	b.set("GET /v1/nodes/n2", api.Error{Code: failure.Busy, Message: "too many requests", Fate: "refused"})
	if r := b.brokerctl(t, "node", "remove", "n2", "--yes"); r.exit == exitOK || len(b.changes()) != asked {
		t.Errorf("a node that cannot be described is removed: exit %d, changed %q", r.exit, b.changes())
	}
}

func TestWaitForReplicasAsksOnlyForTheRest(t *testing.T) {
	with := func(adding []string, replicas ...string) api.Topic {
		topic := ordersTopic()
		topic.Partitions = topic.Partitions[:1]
		topic.Partitions[0].Replicas, topic.Partitions[0].Adding = replicas, adding
		return topic
	}
	b := newFakeBroker(t)
	b.set("PATCH /v1/topics/orders", inTurn(with(nil, "n1"), with(nil, "n1"), with([]string{"n2"}, "n1", "n2"), with(nil, "n1", "n2", "n3")))
	r := b.brokerctl(t, "topic", "alter", "orders", "--replicas", "3", "--wait")
	want := "09:14:02  0 partitions moving, 1 waiting\n09:14:02  1 partition moving, 0 waiting\n"
	if r.exit != exitOK || r.stderr != want || len(b.changes()) != 4 {
		t.Errorf("exit %d, told %q after %d requests", r.exit, r.stderr, len(b.changes()))
	}
	if r := b.brokerctl(t, "topic", "alter", "orders", "--min-isr", "2", "--wait"); r.exit != failure.ExitUsage {
		t.Errorf("nothing to wait for: exit %d", r.exit)
	}
}

func TestWaitSurvivesSilentNode(t *testing.T) {
	empty := leavingNode()
	empty.Leaders = 0
	b := newFakeBroker(t)
	silent := api.Error{Code: failure.Unavailable, Message: "no"}
	n := 0
	b.set("GET /v1/nodes/n2", func(*http.Request, []byte) any {
		if n++; n < waitThrough {
			return silent
		}
		return empty
	})
	if r := b.brokerctl(t, "node", "drain", "n2", "--wait"); r.exit != exitOK || n != waitThrough {
		t.Errorf("exit %d after %d questions: %s", r.exit, n, r.stderr)
	}
	b.set("GET /v1/nodes/n2", silent)
	if r := b.brokerctl(t, "node", "drain", "n2", "--wait"); r.exit != failure.ExitUnavailable {
		t.Errorf("a cluster that is gone: exit %d: %s", r.exit, r.stderr)
	}
}

// A dry run asks for no confirmation, and asks the broker whether it would refuse.
func TestDryRunOfAMoveChangesNothing(t *testing.T) {
	for _, c := range []struct {
		args []string
		exit int
		said string
		sent string
	}{
		{
			[]string{"partition", "move", "orders/0", "--replicas", "n1,n4", "--dry-run"},
			exitOK, "dry run: moving orders/0 from n1,n3,n4,n2 to n1,n4 copies up to 3.1 GiB to each new node",
			`POST /v1/topics/orders/partitions/0/move {"replicas":["n1","n4"],"dry_run":true}`,
		},
		{
			[]string{"node", "decommission", "n2", "--dry-run"},
			exitOK, "dry run: decommissioning n2 moves its 1 leadership and 2 replicas to other nodes",
			`POST /v1/nodes/n2/decommission {"dry_run":true}`,
		},
		{[]string{"partition", "move", "orders/0", "--cancel", "--dry-run"}, failure.ExitUsage, "--dry-run applies to --replicas, without --wait", ""},
		{[]string{"node", "decommission", "n2", "--wait", "--dry-run"}, failure.ExitUsage, "--wait and --dry-run are mutually exclusive", ""},
	} {
		b := newFakeBroker(t)
		r := runWith(t, environment{}, append(c.args, "--addr", b.URL)...)
		if got := strings.Join(b.changes(), "; "); r.exit != c.exit || !strings.Contains(r.stdout+r.stderr, c.said) || got != c.sent {
			t.Errorf("%v: exit %d, sent %q: %s%s", c.args, r.exit, got, r.stdout, r.stderr)
		}
	}
}

func TestLossyCommandsNeedConfirmation(t *testing.T) {
	for _, c := range []struct {
		args []string
		exit int
		said string
	}{
		{[]string{"node", "remove", "n2"}, failure.ExitUsage, "removing n2 stops it"},
		{[]string{"node", "decommission", "n2"}, failure.ExitUsage, "moves its 1 leadership and 2 replicas to other nodes"},
		{[]string{"partition", "elect", "orders/0", "--unclean", "--to", "n4"}, failure.ExitUsage, "1,890,903 messages held by n1 will be lost; any messages held only by n3"},
		{[]string{"partition", "elect", "orders/0", "--unclean", "--to", "n2"}, failure.ExitUsage, "no responding replica has more messages than n2"},
		{[]string{"partition", "elect", "orders/0", "--unclean", "--to", "n3"}, failure.ExitUsage, "n3 does not respond: its lag is unknown"},
		{[]string{"partition", "elect", "orders/0", "--unclean", "--to", "n9"}, failure.ExitUsage, "n9 holds no replica"},
		{[]string{"partition", "elect", "orders/0", "--unclean", "--yes"}, failure.ExitUsage, "--unclean requires --to"},
		{[]string{"partition", "repair", "orders/0", "--discard", "orders.17.0.4", "--on", "n2"}, failure.ExitUsage, "12 messages after offset 4881203 are in no in-sync replica"},
		{[]string{"partition", "repair", "orders/0", "--discard", "orders.17.0.2", "--on", "n4"}, failure.ExitUsage, "its contents are unknown"},
		{[]string{"partition", "repair", "orders/0", "--accept-loss", "--on", "n1"}, failure.ExitUsage, "orders/0 on n1 was lost with its directory"},
		{[]string{"partition", "repair", "orders/0", "--accept-loss"}, failure.ExitUsage, "--on NODE must be given with"},
		{[]string{"partition", "repair", "orders/0", "--on", "n1"}, failure.ExitUsage, "--on NODE must be given with"},
		{[]string{"partition", "repair", "orders/0", "--accept-loss", "--discard", "x", "--on", "n1"}, failure.ExitUsage, "mutually exclusive"},
		{[]string{"partition", "move", "orders/0", "--replicas", "n1,n4"}, failure.ExitUsage, "copies up to 3.1 GiB to each new node"},
		{[]string{"partition", "move", "orders/0"}, failure.ExitUsage, "give --replicas or --cancel"},
		{[]string{"partition", "move", "orders", "--cancel"}, failure.ExitUsage, `requires TOPIC/PARTITION, not "orders"`},
		{[]string{"cluster", "balance", "--replicas"}, failure.ExitUsage, "add --yes"},
	} {
		b := newFakeBroker(t)
		r := b.brokerctl(t, c.args...)
		if r.exit != c.exit || !strings.Contains(r.stderr, c.said) {
			t.Errorf("%q: exit %d, %q; want %q", c.args, r.exit, r.stderr, c.said)
		}
		if got := b.changes(); len(got) > 0 {
			t.Errorf("%q: asked %q without a confirmation", c.args, got)
		}
	}
}

func TestUncleanElectionNeedsTypedName(t *testing.T) {
	b := newFakeBroker(t)
	env := environment{stdin: strings.NewReader("orders/0\n"), isTerminal: true, getenv: addressOnly(b.URL)}
	r := runWith(t, env, "partition", "elect", "orders/0", "--unclean", "--to", "n4")
	if r.exit != exitOK {
		t.Errorf("exit %d: %s", r.exit, r.stderr)
	}
	want := []string{`POST /v1/topics/orders/partitions/0/elect {"to":"n4","unclean":true}`}
	if got := b.changes(); !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
}

func TestDiscardingACopyNeedsTypedName(t *testing.T) {
	b := newFakeBroker(t)
	env := environment{stdin: strings.NewReader("orders/0\n"), isTerminal: true, getenv: addressOnly(b.URL)}
	r := runWith(t, env, "partition", "repair", "orders/0", "--discard", "orders.17.0.4", "--on", "n2")
	if r.exit != exitOK {
		t.Errorf("exit %d: %s", r.exit, r.stderr)
	}
	want := []string{`POST /v1/topics/orders/partitions/0/repair {"node":"n2","discard":"orders.17.0.4"}`}
	if got := b.changes(); !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
}

func TestBalanceStartsOnRequest(t *testing.T) {
	b := newFakeBroker(t)
	begun := unbalanced()
	begun.Started = true
	b.set("POST /v1/cluster/balance", begun)
	r := b.brokerctl(t, "cluster", "balance", "--leaders", "--replicas", "--limit", "3", "--yes")
	if r.exit != exitOK || !strings.HasSuffix(r.stdout, "1 leadership, 1 partition: started\n") {
		t.Errorf("exit %d: %q", r.exit, r.stdout)
	}
	if got, want := b.changes(), []string{`POST /v1/cluster/balance {"leaders":true,"replicas":true,"limit":3}`}; !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
}
