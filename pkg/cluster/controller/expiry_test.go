package controller

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/meta"
)

// A deleted topic is kept for its retention, whatever the clock of the node was that deleted it,
// and whatever the clock of the node is that purges it.
func TestDeletedTopicIsKeptForItsRetention(t *testing.T) {
	const keep = meta.DefaultTrash
	start := time.Unix(1_000_000_000, 0)
	tests := []struct {
		name    string
		before  time.Duration // how long before the first observation it was deleted; 0: after it
		stamped time.Duration // clock of the leader that deleted it, against the right time
		wall    time.Duration // clock of this process, likewise
		right   time.Duration // since when, after the start, it is right; 0: never
		from    time.Duration // when it is due, after the deletion
	}{
		{name: "clocks agree", from: keep},
		{name: "deleted by a node that is behind", stamped: -48 * time.Hour, from: keep},
		{name: "deleted by a node that is ahead", stamped: 1000 * time.Hour, from: keep},
		{name: "purged by a node that is ahead", wall: 48 * time.Hour, from: keep},
		{name: "purged by a node that is behind", wall: -1000 * time.Hour, from: keep},

		{name: "restarted since", before: 2 * time.Hour, from: keep},
		{name: "restarted long after", before: 100 * time.Hour, from: 100*time.Hour + age.StepTrust},
		{name: "restarted since, deleted by a node that is ahead", before: 2 * time.Hour, stamped: 1000 * time.Hour, from: keep + 2*time.Hour},
		{name: "restarted since, deleted by a node that is behind", before: 2 * time.Hour, stamped: -48 * time.Hour, from: 2*time.Hour + age.StepTrust},
		{name: "started with a clock that is ahead for half an hour", before: 2 * time.Hour, wall: 48 * time.Hour, right: 30 * time.Minute, from: keep},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := largeState(t)
			at := start.Add(-test.before)
			remove := func() {
				if r := meta.ApplyAt(s, s.Index()+1, at.Add(test.stamped).UnixNano(), meta.DeleteTopic{Name: "topic-0500"}); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			if test.before > 0 {
				remove()
			}
			var e Expiry
			due := func(now time.Time) bool {
				wall := now.Add(test.wall)
				if test.right > 0 && now.Sub(start) >= test.right {
					wall = now
				}
				return len(e.Due(s, now, wall.UnixNano())) > 0
			}
			if due(start) {
				t.Fatal("purged at the start")
			}
			if test.before == 0 {
				remove()
			}
			var got time.Duration
			for now := start; got == 0 && now.Before(start.Add(2000*time.Hour)); now = now.Add(10 * time.Minute) {
				if due(now) {
					got = now.Sub(at)
				}
			}
			if got != test.from {
				t.Errorf("purged %v after the deletion, want %v", got, test.from)
			}
		})
	}
}

// A topic that was restored and deleted again is kept for its retention again.
func TestSecondDeletionIsKeptAnew(t *testing.T) {
	s, now := largeState(t), time.Unix(1_000_000_000, 0)
	apply := func(c meta.Command) {
		if r := meta.ApplyAt(s, s.Index()+1, now.UnixNano(), c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	var e Expiry
	e.Observe(s, now, now.UnixNano())
	apply(meta.DeleteTopic{Name: "topic-0500"})
	e.Observe(s, now, now.UnixNano())
	now = now.Add(meta.DefaultTrash - time.Hour)
	apply(meta.RestoreTopic{Name: "topic-0500"})
	e.Observe(s, now, now.UnixNano())
	apply(meta.DeleteTopic{Name: "topic-0500"})
	if due := e.Due(s, now.Add(2*time.Hour), now.UnixNano()); len(due) > 0 {
		t.Errorf("purged: %v", due)
	}
	if due := e.Due(s, now.Add(meta.DefaultTrash+2*time.Hour), now.UnixNano()); len(due) != 1 {
		t.Errorf("due: %v", due)
	}
}
