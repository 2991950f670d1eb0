package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// requestTimeout bounds one request to one node: as brokerctl does.
const requestTimeout = 10 * time.Second

// Topic is a topic as reported by the cluster.
type Topic struct {
	Name       string
	Config     struct{ Replicas int }
	Partitions []Partition
	Channels   []Channel
	FirstID    string `json:"first_id"` // of partition 0
}

// Partition is a partition as reported by the cluster.
type Partition struct {
	Partition    int
	Leader       string
	Epoch        uint64
	Replicas     []string
	ISR          []string
	CommittedEnd uint64 `json:"committed_end"`
	LogEnd       uint64 `json:"log_end"`
}

// Channel is a channel as reported by the cluster.
type Channel struct {
	Name      string
	Depth     int
	InFlight  int `json:"in_flight"`
	Deferred  int
	Consumers int
}

// Info is the cluster as a node sees it.
type Info struct {
	Controller string
	Nodes      []struct {
		ID, State, Intent string
		Voter             bool
	}
}

// Verification is the comparison of the replicas of a topic.
type Verification struct {
	Partitions []struct {
		Partition    int
		CommittedEnd uint64 `json:"committed_end"`
		Digests      map[string]string
		Identical    bool
	}
}

// Topic requests a topic.
func (c *Cluster) Topic(ctx context.Context, name string) (Topic, error) {
	var t Topic
	return t, c.Ask(ctx, http.MethodGet, "/v1/topics/"+url.PathEscape(name), nil, &t)
}

// CreateTopic creates a topic; config is that of POST /v1/topics.
func (c *Cluster) CreateTopic(ctx context.Context, name string, config map[string]any) error {
	return c.Ask(ctx, http.MethodPost, "/v1/topics", map[string]any{"name": name, "config": config}, nil)
}

// CreateChannel creates a channel.
func (c *Cluster) CreateChannel(ctx context.Context, topic, channel string, ordered bool) error {
	return c.Ask(ctx, http.MethodPost, "/v1/topics/"+url.PathEscape(topic)+"/channels",
		map[string]any{"name": channel, "ordered": ordered}, nil)
}

// DeleteTopic removes a topic.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) error {
	return c.Ask(ctx, http.MethodDelete, "/v1/topics/"+url.PathEscape(name), nil, nil)
}

// Info returns the nodes of the cluster.
func (c *Cluster) Info(ctx context.Context) (Info, error) {
	var i Info
	return i, c.Ask(ctx, http.MethodGet, "/v1/cluster", nil, &i)
}

// Verify compares the replicas of a topic.
func (c *Cluster) Verify(ctx context.Context, topic string) (Verification, error) {
	var v Verification
	return v, c.Ask(ctx, http.MethodGet, "/v1/topics/"+url.PathEscape(topic)+"/verify", nil, &v)
}

// StatusError is an answer that is no success.
type StatusError struct {
	Status int
	Text   string
}

// Error returns the node's error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s", e.Status, strings.TrimSpace(e.Text))
}

// Ask puts a request to one node after the other until one answers. in and out
// are JSON; either may be nil.
func (c *Cluster) Ask(ctx context.Context, method, path string, in, out any) error {
	err := errors.New("no node runs")
	for _, n := range c.all() {
		if !n.Running() {
			continue
		}
		if err = n.Ask(ctx, method, path, in, out); err == nil {
			return nil
		}
		err = fmt.Errorf("%s %s of %s: %w", method, path, n.ID, err)
		var status *StatusError
		if errors.As(err, &status) && status.Status < http.StatusInternalServerError {
			return err
		}
	}
	return err
}

// Ask puts a request to the node. in and out are JSON; either may be nil.
func (n *Node) Ask(ctx context.Context, method, path string, in, out any) error {
	text, err := n.Fetch(ctx, method, path, in)
	if err != nil || out == nil || len(text) == 0 {
		return err
	}
	return json.Unmarshal(text, out)
}

// Fetch puts a request to the node and returns its answer as it is.
func (n *Node) Fetch(ctx context.Context, method, path string, in any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.HTTP+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if n.Token != "" {
		req.Header.Set("Authorization", "Bearer "+n.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = &StatusError{resp.StatusCode, string(text)}
	}
	return text, err
}

// Whole returns nil if every partition has a leader and all its replicas are in sync, and
// otherwise what is missing.
func (t Topic) Whole() error {
	for _, p := range t.Partitions {
		if p.Leader == "" {
			return fmt.Errorf("partition %d of %s has no leader", p.Partition, t.Name)
		}
		for _, r := range p.Replicas {
			if !slices.Contains(p.ISR, r) {
				return fmt.Errorf("replica %s of partition %d of %s is not in sync (%v of %v are)",
					r, p.Partition, t.Name, p.ISR, p.Replicas)
			}
		}
	}
	return nil
}

// Late is a timeout of a wait, with the last observation.
type Late struct{ Err error }

// Error implements error.
func (l *Late) Error() string { return l.Err.Error() }

// Unwrap returns the last observation.
func (l *Late) Unwrap() error { return l.Err }

// Await polls f until it returns nil or ctx ends; then the error is a Late.
func Await(ctx context.Context, f func() error) error {
	tick := time.NewTicker(4 * pollInterval)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &Late{fmt.Errorf("%w: %w", context.Cause(ctx), err)}
		}
	}
}
