package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/nsq"
)

// allRetire reports whether a shutdown has begun and reached every connection.
func (h *harness) allRetire() bool {
	return h.isClosed() && !slices.ContainsFunc(h.openSessions(), func(s *session) bool { return s.conn.retiring.Load() == nil })
}

// Commands that arrive during a shutdown are executed and answered, until the client is silent for
// a moment.
func TestShutdownAnswersLateCommands(t *testing.T) {
	h := newHarness(t, Options{quiet: retireTime})
	w := h.dial(t)
	w.send("PUB held\n" + sized("a"))
	eventually(t, "the publish arrives", func() bool { return h.broker.heldCount() == 1 })
	down := make(chan error, 1)
	go func() { down <- h.Shutdown(t.Context()) }()
	eventually(t, "all connections retire", h.allRetire)
	w.send("PUB t\n" + sized("b") + "PUB held\n" + sized("c"))
	eventually(t, "the publish arrives", func() bool { return h.broker.heldCount() == 2 })
	h.broker.release()
	w.expect("OK", "OK", "OK", "EOF")
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// A shutting-down server sends a consumer no further message, and accepts its FINs.
func TestShutdownAcceptsConsumerAnswers(t *testing.T) {
	h := newHarness(t, Options{quiet: retireTime}) // pauses of a busy machine must not count as silence
	w := h.dial(t)
	w.sub("t", 2)
	publisher := h.dial(t)
	publisher.send("PUB t\n" + sized("a") + "PUB t\n" + sized("b") + "PUB t\n" + sized("c"))
	publisher.expect("OK", "OK", "OK")
	first, second := strings.Fields(w.frame())[1], strings.Fields(w.frame())[1]
	publisher.send("PUB held\n" + sized("a"))
	eventually(t, "the publish arrives", func() bool { return h.broker.heldCount() == 1 })
	down := make(chan error, 1)
	go func() { down <- h.Shutdown(t.Context()) }()
	eventually(t, "all connections retire", h.allRetire)
	w.send("FIN " + first + "\nFIN " + second + "\n")
	w.expect("EOF") // not the third message
	h.broker.release()
	publisher.expect("OK", "EOF")
	if err := <-down; err != nil {
		t.Error(err)
	}
	ch := h.broker.channel("t", "c")
	if left := len(ch.ready); left != 1 || len(ch.inFlight) != 0 {
		t.Errorf("%d messages wait and %d are in flight, want the third to wait", left, len(ch.inFlight))
	}
}

// A client that never stops sending does not delay a shutdown for long.
func TestShutdownEndsBusyClient(t *testing.T) {
	h := newHarness(t, Options{LingerTimeout: time.Millisecond})
	w := h.dial(t)
	stop, sent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := fmt.Fprintf(w, "PUB t\n%s", sized("x")); err != nil {
				return // the server has ended
			}
			if _, _, err := nsq.NewFrameReader(w, 1<<10).Next(); err != nil {
				return
			}
		}
	}()
	eventually(t, "it publishes", func() bool { return h.Stats().BytesIn > 1000 })
	began := time.Now()
	if err := h.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > testTimeout/2 {
		t.Errorf("it took %v", took)
	}
	close(stop)
	<-sent
}
