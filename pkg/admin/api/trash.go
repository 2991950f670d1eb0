package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// DeletedTopic is a deleted topic that can be restored.
type DeletedTopic struct {
	Name        string    `json:"name"`
	Incarnation uint64    `json:"incarnation"` // tells it from others of the name
	DeletedAt   time.Time `json:"deleted_at"`
	KeptUntil   time.Time `json:"kept_until"` // it is purged then, or before if a disk is nearly full
	Partitions  int       `json:"partitions"`
	Replicas    int       `json:"replicas"`
	Channels    []string  `json:"channels"` // sorted by name
	Nodes       []string  `json:"nodes"`    // that hold its messages
}

// DeletedTopics lists the trash, most recently deleted first.
type DeletedTopics struct {
	Deleted []DeletedTopic `json:"deleted"`
}

// RestoreTopic asks for a deleted topic.
type RestoreTopic struct {
	Incarnation uint64 `json:"incarnation,omitempty"` // 0: the only one of the name
	// Replace has the topic that has the name now be deleted, in one step with the restore. It needs Incarnation.
	Replace bool `json:"replace,omitempty"`
}

// Trash is the deleted topics of a cluster.
type Trash struct{ t *transport }

// Topics returns the trash, most recently deleted first.
func (a Trash) Topics(ctx context.Context) ([]DeletedTopic, error) {
	var out DeletedTopics
	err := a.t.get(ctx, path("deleted"), nil, &out)
	return out.Deleted, err
}

// Restore restores a deleted topic with its messages, channels and positions.
func (a Trash) Restore(ctx context.Context, name string, which RestoreTopic) (*Topic, error) {
	out := new(Topic)
	return out, a.t.send(ctx, http.MethodPost, path("deleted", name, "restore"), which, out)
}

// Purge permanently deletes a topic: the current one (0), or the one of an incarnation, which
// may be in the trash.
func (a Trash) Purge(ctx context.Context, name string, incarnation uint64) error {
	q := url.Values{"purge": {"true"}}
	if incarnation != 0 {
		q.Set("incarnation", strconv.FormatUint(incarnation, 10))
	}
	p := path("topics", name)
	if isDotSegment(name) {
		p = path("topics")
		q.Set("topic", name)
	}
	return a.t.send(ctx, http.MethodDelete, p+"?"+q.Encode(), nil, nil)
}
