package server

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/nsq"
)

// A process that is paused between taking messages and writing them may find,
// when it continues, that another node delivers them.
func TestMessagesAreNotWrittenAfterLeaseExpiry(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pause time.Duration
		want  string
		left  int // returned messages
	}{
		{"in time", time.Second, "OK OK a b", 0},
		{"too late", time.Second + 1, "OK OK", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFakeBroker()
				b.pause, b.until = tt.pause, time.Now().Add(time.Second)
				srv, err := New(Options{}, Broker{b, b, b}, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				client, server := net.Pipe()
				srv.start(t.Context(), server)
				go func() {
					_, _ = io.WriteString(client, nsq.Magic+mpub("t", "a", "b")+"SUB t c\nRDY 10\n")
				}()
				var got []string
				for len(got) < len(strings.Fields(tt.want)) {
					kind, data, err := nsq.NewFrameReader(client, 1<<20).Next()
					if err != nil {
						t.Fatalf("after %q: %v", got, err)
					}
					if kind == nsq.FrameMessage {
						m, err := nsq.ParseMessage(data)
						if err != nil {
							t.Fatal(err)
						}
						data = m.Body
					}
					got = append(got, string(data))
				}
				if text := strings.Join(got, " "); text != tt.want {
					t.Errorf("got %q", text)
				}
				if tt.left > 0 {
					if _, data, err := nsq.NewFrameReader(client, 1<<20).Next(); err == nil {
						t.Errorf("and then %q", data)
					}
				}
				_ = client.Close()
				synctest.Wait()
				if ch := b.channel("t", "c"); len(ch.ready) != 2 && tt.left > 0 || ch.closed != 1 {
					t.Errorf("closed %d, %d messages given back", ch.closed, len(ch.ready))
				}
				if ended := srv.Stats().Ended[EndBroker]; ended != uint64(min(tt.left, 1)) {
					t.Errorf("ended by the broker: %d", ended)
				}
			})
		})
	}
}
