package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

// DeletedTopic is a deleted topic that can be restored.
type DeletedTopic struct {
	Name        string    `json:"name"`
	Incarnation uint64    `json:"incarnation"` // distinguishes it from others of the name
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

// RestoreTopic is the request to restore a deleted topic.
type RestoreTopic struct {
	Incarnation uint64 `json:"incarnation,omitempty"` // 0: the only one of the name
	// Replaces is the topic that has the name now, which is deleted in one step with the restore. It needs
	// Incarnation. 0: none is.
	Replaces uint64 `json:"replaces,omitempty"`
	DryRun   bool   `json:"dry_run,omitempty"` // only return the topic that would be restored
}

// Trash is the deleted topics of a cluster.
type Trash struct{ t *transport }

// Topics returns the trash, most recently deleted first.
func (a Trash) Topics(ctx context.Context) ([]DeletedTopic, error) {
	var out DeletedTopics
	err := a.t.get(ctx, path("deleted"), nil, &out)
	return out.Deleted, err
}

// Holder returns the incarnation of the topic that has a name now; 0: none has.
func (a Trash) Holder(ctx context.Context, name string) (uint64, error) {
	t, err := into[Topic](ctx, a.t, path("topics", name))
	if CodeOf(err) == failure.NotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return t.Incarnation, nil
}

// Restore restores a deleted topic with its messages, channels and positions.
func (a Trash) Restore(ctx context.Context, name string, which RestoreTopic) (*Topic, error) {
	return post[Topic](ctx, a.t, path("deleted", name, "restore"), which)
}

// TryTopic returns the topic that a change, empty or delete, would be of, if it is permitted, without the
// change.
func (a Trash) TryTopic(ctx context.Context, verb, name string) (*Topic, error) {
	out := new(Topic)
	return out, a.try(ctx, verb, path("topics", name), out)
}

// TryChannel returns the channel likewise.
func (a Trash) TryChannel(ctx context.Context, verb, topic, channel string) (*Channel, error) {
	out := new(Channel)
	return out, a.try(ctx, verb, path("topics", topic, "channels", channel), out)
}

func (a Trash) try(ctx context.Context, verb, path string, out any) error {
	if verb == "delete" {
		return a.t.send(ctx, http.MethodDelete, path+"?dry_run=true", nil, out)
	}
	return a.t.send(ctx, http.MethodPost, path+"/"+verb+"?dry_run=true", nil, out)
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
