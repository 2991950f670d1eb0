package api

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// MovePlan is the effect that a move of a channel would have; nothing is changed.
type MovePlan struct {
	Topic      string          `json:"topic"`
	Channel    string          `json:"channel"`
	Partitions []PartitionMove `json:"partitions"` // by number
}

// PartitionMove is the effect of a move in one partition.
type PartitionMove struct {
	Partition   int    `json:"partition"`
	Now         uint64 `json:"now"` // every message below it is finished
	Target      uint64 `json:"target"`
	Redelivered int64  `json:"redelivered"` // finished messages that would be delivered again
	Skipped     int64  `json:"skipped"`     // unfinished messages that would not
}

// SavedPosition is the position of a channel before an operator moved, emptied or deleted it.
type SavedPosition struct {
	ID         uint64           `json:"id"`
	At         time.Time        `json:"at,omitzero"`
	Verb       string           `json:"verb"` // the change: seek, skip, empty, delete, restore
	Partitions []SavedPartition `json:"partitions"`
	// Unsaved, in the answer to a deletion, are the partitions in which the position was not saved, because their
	// leaders did not respond: a restored channel begins at their end.
	Unsaved []int `json:"unsaved,omitempty"`
}

// SavedPartition is a saved position in one partition.
type SavedPartition struct {
	Partition int    `json:"partition"`
	Confirmed uint64 `json:"confirmed"` // every message below it was finished
	MovedTo   uint64 `json:"moved_to"`
}

// ChannelHistory lists the saved positions of a channel, latest first.
type ChannelHistory struct {
	Topic   string          `json:"topic"`
	Channel string          `json:"channel"`
	Saved   []SavedPosition `json:"saved"`
}

// UndoneMove is a move that was undone.
type UndoneMove struct {
	Topic      string            `json:"topic"`
	Channel    string            `json:"channel"`
	Verb       string            `json:"verb"` // the change that was undone
	At         time.Time         `json:"at"`   // when that was done
	Partitions []UndonePartition `json:"partitions"`
	// Unsaved are the partitions in which the position of a restored channel was not saved, because they had no
	// leader when it was deleted, or were added since: the channel begins at their end.
	Unsaved []int `json:"unsaved,omitempty"`
}

// UndonePartition is the position after an undo in one partition.
type UndonePartition struct {
	Partition int    `json:"partition"`
	Confirmed uint64 `json:"confirmed"`
	Gone      int64  `json:"gone"` // messages that were deleted meanwhile
}

// Skip requests that a channel skip the unfinished messages of one partition before an offset.
type Skip struct {
	Partition int    `json:"partition"`
	To        uint64 `json:"to"`
}

// PlanSeek returns the effect of SeekChannel without performing it.
func (h History) PlanSeek(ctx context.Context, topic, channel string, to Seek) (*MovePlan, error) {
	q := url.Values{}
	switch {
	case to.Offset != nil:
		q.Set("offset", strconv.FormatUint(*to.Offset, 10))
	case to.Time != nil:
		q.Set("time", to.Time.Format(time.RFC3339Nano))
	default:
		q.Set("to", string(to.To))
	}
	if to.Partition != nil {
		q.Set("partition", strconv.Itoa(*to.Partition))
	}
	return find[MovePlan](ctx, h.t, path("topics", topic, "channels", channel, "seek"), q)
}

// Skip skips the unfinished messages of a channel in a partition before an offset.
func (h History) Skip(ctx context.Context, topic, channel string, s Skip) (*Channel, error) {
	return post[Channel](ctx, h.t, path("topics", topic, "channels", channel, "skip"), s)
}

// Saved returns the saved positions of a channel.
func (h History) Saved(ctx context.Context, topic, channel string) (*ChannelHistory, error) {
	return into[ChannelHistory](ctx, h.t, path("topics", topic, "channels", channel, "history"))
}

// Undo undoes the last move of a channel that has not been undone.
func (h History) Undo(ctx context.Context, topic, channel string) (*UndoneMove, error) {
	return post[UndoneMove](ctx, h.t, path("topics", topic, "channels", channel, "undo"), nil)
}

// PlanRestoreChannel returns the effect of RestoreChannel on the channel that it would replace, without performing it.
func (h History) PlanRestoreChannel(ctx context.Context, topic, channel string, replace bool) (*MovePlan, error) {
	return post[MovePlan](ctx, h.t, path("topics", topic, "channels", channel, "restore"), map[string]bool{"replace": replace, "dry_run": true})
}

// RestoreChannel restores a deleted channel at its last position. replace also moves a channel that was
// created since under the name; its position is saved.
func (h History) RestoreChannel(ctx context.Context, topic, channel string, replace bool) (*UndoneMove, error) {
	return post[UndoneMove](ctx, h.t, path("topics", topic, "channels", channel, "restore"), map[string]bool{"replace": replace})
}
