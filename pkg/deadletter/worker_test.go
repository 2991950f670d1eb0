package deadletter

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TestFailureLastsUntilTheChannelIsServed: a poke that finds no slot, or a node that stops, has served
// nothing.
func TestFailureLastsUntilTheChannelIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		spawned, spawns := 0, false
		w := NewWorker(t.Context(), nil, slog.New(slog.NewTextHandler(&log, nil)), func(func()) bool {
			spawned++
			return spawns
		})
		s := Source{Topic: "t", Channel: new(topic.Channel)}
		if !w.begin(s, time.Now()) {
			t.Fatal("not begun")
		}
		w.end(s, errors.New("no room"))
		for range cap(w.slots) {
			w.slots <- struct{}{}
		}
		time.Sleep(retryAfter)
		w.Poke(s)
		if spawned != 0 || len(w.Troubles()) != 1 {
			t.Errorf("spawned %d without a slot; troubles %v", spawned, w.Troubles())
		}
		<-w.slots
		w.Poke(s)
		if spawned != 1 || len(w.Troubles()) != 1 {
			t.Errorf("spawned %d as the node stops; troubles %v", spawned, w.Troubles())
		}
		spawns = true
		w.Poke(s)
		if spawned != 2 {
			t.Errorf("spawned %d times, want 2: nothing serves the channel", spawned)
		}
		w.end(s, nil)
		if text := log.String(); strings.Count(text, "resumed") != 1 || strings.Count(text, "cannot dispose") != 1 || len(w.Troubles()) != 0 {
			t.Errorf("troubles %v, logged:\n%s", w.Troubles(), text)
		}
	})
}

// TestLetterOfMovedMessageHasTheSameID: a message may be appended again between the publish of its
// letter and its finish.
func TestLetterOfMovedMessageHasTheSameID(t *testing.T) {
	s := Source{Topic: "t", Partition: 3}
	id := func(at, origin seq.Offset) string {
		e := topic.Exhausted{Version: 7, Moves: 1, Origin: origin}
		e.ID = seq.NewMessageID(3, at)
		return string(s.dedupID(&e))
	}
	if was, is := id(10, 10), id(50, 10); was != is {
		t.Errorf("%s, and %s where it was moved to", was, is)
	}
	if one, other := id(50, 10), id(50, 50); one == other {
		t.Errorf("two messages have the id %s", one)
	}
}

// TestLettersOfTwoPartitionsHaveTwoIDs: messages of different partitions have the same offsets. With one id, the second
// letter would be dropped as a duplicate.
func TestLettersOfTwoPartitionsHaveTwoIDs(t *testing.T) {
	e := topic.Exhausted{Version: 7, Moves: 1, Origin: 10}
	one, other := Source{Topic: "t", Partition: 0}, Source{Topic: "t", Partition: 1}
	if id := string(one.dedupID(&e)); id == string(other.dedupID(&e)) {
		t.Errorf("messages of two partitions have the id %s", id)
	}
}
