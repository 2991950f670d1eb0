package operate_test

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/brokertest"
)

// An undo undoes the last move, whichever nodes made the moves and the undo: a node does not know at once what
// another one has just changed.
func TestUndoAtAnyNodeUndoesTheLastMove(t *testing.T) {
	done := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var clients []*api.Client
	for _, n := range brokertest.Cluster(t, 3, brokertest.InMemory()) {
		c, err := api.NewClient(api.ClientOptions{Addresses: []string{n.URL()}})
		done(err)
		clients = append(clients, c)
	}
	ctx := t.Context()
	_, err := clients[0].CreateTopic(ctx, api.CreateTopic{Name: "orders"})
	done(err)
	_, err = clients[0].CreateChannel(ctx, "orders", api.CreateChannel{Name: "bill"})
	done(err)
	_, err = clients[0].Publish(ctx, "orders", api.Publish{Messages: []api.Message{{Text: "a"}, {Text: "b"}, {Text: "c"}, {Text: "d"}}})
	done(err)
	_, err = clients[0].SeekChannel(ctx, "orders", "bill", api.Seek{Offset: new(uint64(1))})
	done(err)
	for i := range 30 {
		a, b, c := clients[i%3], clients[i/3%3], clients[i/9%3]
		for _, to := range []api.SeekEdge{"end", "start"} {
			_, err := a.SeekChannel(ctx, "orders", "bill", api.Seek{To: to})
			done(err)
		}
		first, err := b.History.Undo(ctx, "orders", "bill")
		done(err)
		second, err := c.History.Undo(ctx, "orders", "bill")
		done(err)
		if to, then := first.Partitions[0].Confirmed, second.Partitions[0].Confirmed; to != 4 || then != 1 {
			t.Fatalf("round %d: after seeks from 1 to the end and to the start, undos returned to %d and %d", i, to, then)
		}
	}
}
