package nodes

import (
	"context"
	"fmt"
	"net/http"
)

// Complete asks the node about a topic and a channel of it, in each way that gathers answers of
// several nodes. It returns an error that names the nodes which an answer lacks.
func (n *Node) Complete(ctx context.Context, topic, channel string) error {
	topic, channel = "topics/"+topic, "topics/"+topic+"/channels/"+channel
	for _, path := range []string{
		"topics", "partitions", "consumers", "lag", topic, topic + "/channels", topic + "/partitions", topic + "/partitions/0",
		topic + "/partitions/0/repair", channel, channel + "/explain",
	} {
		var answer any
		if err := n.Ask(ctx, http.MethodGet, "/v1/"+path, nil, &answer); err != nil {
			return fmt.Errorf("GET /v1/%s of %s: %w", path, n.ID, err)
		}
		if missing := missingNodes(answer); len(missing) > 0 {
			return fmt.Errorf("GET /v1/%s of %s lacks the answers of %v", path, n.ID, missing)
		}
	}
	return nil
}

// missingNodes returns what an answer, or any part of it, lists as missing_nodes.
func missingNodes(answer any) (all []any) {
	switch v := answer.(type) {
	case map[string]any:
		for key, part := range v {
			if listed, ok := part.([]any); ok && key == "missing_nodes" {
				all = append(all, listed...)
			} else {
				all = append(all, missingNodes(part)...)
			}
		}
	case []any:
		for _, part := range v {
			all = append(all, missingNodes(part)...)
		}
	}
	return all
}
