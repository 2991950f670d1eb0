// Package topiclog reads the log of a topic over /v1, without consuming: a Range of a partition, or
// what is published, as it arrives.
package topiclog

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Log is the log of a topic.
type Log struct {
	Client  *api.Client
	Topic   string
	Timeout time.Duration // of a request
}

// peek returns messages.
func (l *Log) peek(ctx context.Context, o api.PeekOptions) ([]api.Peeked, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	return l.Client.Peek(ctx, l.Topic, "", o)
}

// describe returns the topic as it is now.
func (l *Log) describe(ctx context.Context) (*api.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	return l.Client.Topic(ctx, l.Topic)
}

// Range is the messages [Start, End) of a partition.
type Range struct {
	Log        *Log
	Partition  int
	Start, End uint64
}

// rangePage is how many messages one request asks for. The broker returns fewer if they are large.
const rangePage = 1000

// page returns messages from an offset on.
func (r *Range) page(ctx context.Context, from uint64, max int) ([]api.Peeked, error) {
	return r.Log.peek(ctx, api.PeekOptions{Partition: &r.Partition, From: &from, Max: max})
}

// Resolve returns the offset in the range for a position. For a time, it is that of the first
// message published at or after it, found by reading few messages.
func (r *Range) Resolve(ctx context.Context, to api.Seek) (uint64, error) {
	switch {
	case to.To == api.SeekStart:
		return r.Start, nil
	case to.To == api.SeekEnd:
		return r.End, nil
	case to.Offset != nil:
		return min(max(*to.Offset, r.Start), r.End), nil
	}
	low, high := r.Start, r.End
	for low < high {
		middle := low + (high-low)/2
		seen, err := r.page(ctx, middle, 1)
		if err != nil {
			return 0, err
		}
		if len(seen) > 0 && seen[0].Timestamp.Before(*to.Time) {
			low = max(middle, seen[0].Seq) + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// How long Each waits for a leader that does not return committed messages.
const (
	absentTries = 60
	absentPause = 500 * time.Millisecond
)

// absent is called if a leader returns nothing from an offset on, and returns from where to read: retention has deleted
// the messages, or a new leader does not yet know that they are committed.
func (r *Range) absent(ctx context.Context, next uint64, tries int) (uint64, error) {
	about, err := r.Log.describe(ctx)
	if err != nil {
		return 0, err
	}
	if r.Partition < len(about.Partitions) && about.Partitions[r.Partition].LogStart > next {
		return min(about.Partitions[r.Partition].LogStart, r.End), nil
	}
	if tries == absentTries {
		return 0, fmt.Errorf("the leader of partition %d does not return the messages from %d on, though those below %d were committed", r.Partition, next, r.End)
	}
	timer := time.NewTimer(absentPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return next, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Each calls f with the messages of the range, and counts those deleted by retention in gone.
func (r *Range) Each(ctx context.Context, gone *uint64, f func(*api.Peeked) error) error {
	tries := 0
	for next := r.Start; next < r.End; {
		list, err := r.page(ctx, next, rangePage)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			start, err := r.absent(ctx, next, tries)
			if err != nil {
				return err
			}
			*gone += start - next
			next = start
			tries++
			continue
		}
		tries = 0
		for i := range list {
			m := &list[i]
			if m.Seq >= r.End {
				*gone += r.End - next
				return nil
			}
			*gone += m.Seq - next
			next = m.Seq + 1
			if err := f(m); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
	}
	return nil
}
