package server

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// published returns how many messages a topic has.
func (b *fakeBroker) published(topic string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.topicLocked(topic).bodies)
}

func TestLongWorkIsDoneInTurns(t *testing.T) {
	many := make([]string, limit.TurnMessages+1)
	for i := range many {
		many[i] = "x"
	}
	for _, tt := range []struct {
		name, send string
		waits      bool
	}{
		{"a small publish", "PUB t\n" + sized("x"), false},
		{"a batch of few", mpub("t", many[:keepMessages]...), false},
		{"a batch of more", mpub("t", many[:keepMessages+1]...), true},
		{"a batch of many", mpub("t", many...), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := limit.NewTurns(1)
				_, b, conn := pipeServer(t, Options{Turns: turns})
				turns.Acquire()
				had := false
				go func() {
					turns.Acquire()
					had = true
					turns.Give()
				}()
				synctest.Wait()
				w := &wire{t, conn}
				go w.send(nsq.Magic + tt.send)
				synctest.Wait()
				if had {
					t.Error("a turn is passed on by who has none")
				}
				if waits := turns.Waiting() > 1; waits != tt.waits || (b.published("t") == 0) != tt.waits {
					t.Errorf("it waits: %v, want %v; %d messages are published", waits, tt.waits, b.published("t"))
				}
				turns.Give()
				w.expect("OK")
			})
		})
	}
}

func TestPublishReleasesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := limit.NewTurns(1)
		_, b, conn := pipeServer(t, Options{Turns: turns})
		room := make(chan struct{})
		var next time.Duration // until another goroutine has its turn
		b.onPublish = func() {
			began := time.Now()
			turns.Acquire()
			next = time.Since(began)
			turns.Give()
			close(room)
		}
		w := &wire{t, conn}
		go w.send(nsq.Magic + mpub("t", strings.Split(strings.Repeat("x ", keepMessages)+"x", " ")...))
		w.expect("OK")
		<-room
		if next != limit.PublishTurn {
			t.Errorf("another has its turn %v after a publish began to wait, want %v", next, limit.PublishTurn)
		}
	})
}

func TestDecompressionIsDoneInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := limit.NewTurns(1)
		_, b, conn := pipeServer(t, Options{Turns: turns})
		w := &wire{t, conn}
		go w.send(nsq.Magic + "IDENTIFY\n" + sized(`{"feature_negotiation":true,"deflate":true}`))
		w.frame()
		from := flate.NewReader(conn)
		plain := &wire{t, conn}
		if _, _, err := nsq.NewFrameReader(from, 100).Next(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		turns.Acquire() // a reader that waits for input has no turn
		var small bytes.Buffer
		to, err := flate.NewWriter(&small, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write([]byte("PUB t\n" + sized("x"))); err != nil {
			t.Fatal(err)
		}
		if err := to.Flush(); err != nil {
			t.Fatal(err)
		}
		go plain.send(small.String())
		synctest.Wait()
		if turns.Waiting() != 1 || b.published("t") != 0 {
			t.Errorf("%d wait, %d messages are published", turns.Waiting(), b.published("t"))
		}
		turns.Give()
		if _, answer, err := nsq.NewFrameReader(from, 100).Next(); err != nil || string(answer) != "OK" {
			t.Errorf("%q, %v", answer, err)
		}
	})
}

func TestLongBodiesAreReadInTurns(t *testing.T) {
	turns := limit.NewTurns(1)
	h := newHarness(t, Options{Turns: turns})
	long := "PUB t\n" + sized(strings.Repeat("x", 1<<20))
	w, other := h.dial(t), h.dial(t)
	w.send(long[:512<<10])
	turns.Acquire() // a reader that waits for the rest has no turn
	w.send(long[512<<10:])
	eventually(t, "the long body waits", func() bool { return turns.Waiting() == 1 })
	other.send("PUB t\n" + sized("x"))
	other.expect("OK")
	if n := h.broker.published("t"); n != 1 {
		t.Errorf("%d messages are published", n)
	}
	turns.Give()
	w.expect("OK")
	turns.Acquire()
	w.send("PUB t\n" + sized("x")) // after a long body a small one is a short task again
	w.expect("OK")
	turns.Give()
}

func TestInputAfterFatalErrorIsDroppedInTurns(t *testing.T) {
	turns := limit.NewTurns(1)
	h := newHarness(t, Options{Turns: turns})
	turns.Acquire()
	w := h.dial(t)
	w.send("WRONG\n" + strings.Repeat("x", 100<<10))
	w.expect("E_INVALID invalid command WRONG")
	eventually(t, "dropping waits", func() bool { return turns.Waiting() == 1 })
	turns.Give()
	w.expect("EOF")
}
