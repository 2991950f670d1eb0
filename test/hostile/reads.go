package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/brokerd/brokerd/test/steps"
)

// manyTopics is how many topics there are while clients read lists of them.
const manyTopics = 900

// lists are requests whose answers grow with the number of topics, or take as long to find.
var lists = []string{
	"/stats?format=json", "/stats", "/v1/topics", "/metrics", "/metrics/detailed", "/v1/cluster/health", "/v1/partitions", "/topics", "/nodes",
	"/v1/nodes", "/v1/cluster", "/v1/lag", "/v1/events", "/lookup?topic=many-1",
}

// many creates topics.
func many(ctx context.Context, v *victim) error {
	return steps.Run(func() {
		for i := range manyTopics {
			steps.Need(v.node.Fetch(ctx, http.MethodPost, fmt.Sprintf("/topic/create?topic=many-%d", i), nil))
		}
	})
}

// fewer deletes them.
func fewer(ctx context.Context, v *victim) error {
	return steps.Run(func() {
		for i := range manyTopics {
			steps.Need(v.node.Fetch(ctx, http.MethodPost, fmt.Sprintf("/topic/delete?topic=many-%d", i), nil))
		}
	})
}

// reads asks for one list after the other, each of the crowd beginning with another one.
func reads(f *foe) error {
	var err error
	for i := f.number; f.ctx.Err() == nil; i++ {
		err = errors.Join(err, f.ask(http.MethodGet, lists[i%len(lists)], nil))
	}
	return err
}

// narrow deletes the topics that partitions may have created.
func narrow(ctx context.Context, v *victim) error {
	for number := range 8 {
		for i := range 2 {
			// Most were refused.
			_, _ = v.node.Fetch(ctx, http.MethodDelete, fmt.Sprintf("/v1/topics/wide-%d-%d", number, i), nil)
		}
	}
	return nil
}

// partitions creates topics with as many partitions as there can be.
func partitions(f *foe) error {
	for i := 0; f.ctx.Err() == nil; i++ {
		body := fmt.Sprintf(`{"name":"wide-%d-%d","config":{"partitions":1024}}`, f.number, i)
		if err := f.ask(http.MethodPost, "/v1/topics", []byte(body)); err != nil {
			return err
		}
	}
	return nil
}
