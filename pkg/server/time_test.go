package server

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/nsq"
)

// pipeServer serves one end of a pipe inside a bubble and returns the other.
func pipeServer(t *testing.T, opts Options) (*Server, *fakeBroker, net.Conn) {
	t.Helper()
	b := newFakeBroker()
	srv, err := New(opts, Broker{b, b, b}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	srv.start(t.Context(), server)
	t.Cleanup(func() {
		_ = client.Close()
		if err := srv.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return srv, b, client
}

// frameTimes reads frames until the connection ends.
func frameTimes(conn net.Conn, start time.Time, seen func(after time.Duration, data string)) {
	for {
		_, data, err := nsq.NewFrameReader(conn, 1<<20).Next()
		if err != nil {
			return
		}
		seen(time.Since(start), string(data))
	}
}

func TestSilentConnectionEndsAfterTwoIntervals(t *testing.T) {
	for _, tt := range []struct {
		name     string
		identify string
		beats    int
		end      time.Duration
	}{
		{"default", "", 1, 60 * time.Second},
		{"asked for", `{"heartbeat_interval":1000}`, 1, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, _, conn := pipeServer(t, Options{})
				start := time.Now()
				go func() {
					in := nsq.Magic
					if tt.identify != "" {
						in += "IDENTIFY\n" + sized(tt.identify)
					}
					_, _ = io.WriteString(conn, in)
				}()
				beats := 0
				frameTimes(conn, start, func(_ time.Duration, data string) {
					if data == nsq.Heartbeat {
						beats++
					}
				})
				if took := time.Since(start); took != tt.end || beats < tt.beats {
					t.Errorf("ended after %v with %d heartbeats", took, beats)
				}
				synctest.Wait()
				if srv.Stats().Ended[EndTimeout] != 1 {
					t.Error("the end is not counted as a timeout")
				}
			})
		})
	}
}

func TestHeartbeatsKeepInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, conn := pipeServer(t, Options{})
		start := time.Now()
		go func() { _, _ = io.WriteString(conn, nsq.Magic+"IDENTIFY\n"+sized(`{"heartbeat_interval":5000}`)) }()
		// A client that only publishes, without pauses, gets heartbeats and stays connected.
		stop := make(chan struct{})
		go func() {
			tick := time.NewTicker(3 * time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					if _, err := io.WriteString(conn, "PUB t\n"+sized("a")); err != nil {
						return
					}
				case <-stop:
					_ = conn.Close()
					return
				}
			}
		}()
		var at []time.Duration
		frameTimes(conn, start, func(after time.Duration, data string) {
			if data != nsq.Heartbeat {
				return
			}
			if at = append(at, after); len(at) == 20 {
				close(stop)
			}
		})
		for i, after := range at {
			if want := time.Duration(i+1) * 5 * time.Second; after != want {
				t.Fatalf("heartbeat %d after %v, want %v", i, after, want)
			}
		}
	})
}

func TestHeartbeatsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, conn := pipeServer(t, Options{})
		go func() { _, _ = io.WriteString(conn, nsq.Magic+"IDENTIFY\n"+sized(`{"heartbeat_interval":-1}`)) }()
		go func() {
			<-time.After(10 * time.Hour) // bubble time
			_, _ = io.WriteString(conn, "PUB t\n"+sized("a"))
		}()
		var got []string
		for range 2 {
			_, data, err := nsq.NewFrameReader(conn, 1<<20).Next()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(data))
		}
		if strings.Join(got, " ") != "OK OK" {
			t.Errorf("got %q", got)
		}
	})
}

func TestSlowCommandIsNotActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, conn := pipeServer(t, Options{})
		start := time.Now()
		var dripping sync.WaitGroup
		dripping.Go(func() {
			if _, err := io.WriteString(conn, nsq.Magic+"PUB t\n\x00\x00\x10\x00"); err != nil {
				return
			}
			tick := time.NewTicker(10 * time.Second)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
			}
		})
		frameTimes(conn, start, func(time.Duration, string) {})
		if took := time.Since(start); took != time.Minute {
			t.Errorf("ended after %v", took)
		}
		dripping.Wait()
	})
}

func TestMagicHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, conn := pipeServer(t, Options{})
		start := time.Now()
		go func() { _, _ = io.WriteString(conn, "  V") }()
		frameTimes(conn, start, func(time.Duration, string) {})
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestNonReadingClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, b, conn := pipeServer(t, Options{})
		in := nsq.Magic + "SUB t c\nRDY 10\n" + mpub("t", "a", "b")
		start := time.Now()
		if _, err := io.WriteString(conn, in); err != nil {
			t.Fatal(err)
		}
		// NOPs keep the connection alive.
		for {
			if _, err := io.WriteString(conn, "NOP\n"); err != nil {
				break
			}
			<-time.After(time.Second) // bubble time
		}
		if took := time.Since(start); took < 30*time.Second || took > 46*time.Second {
			t.Errorf("given up after %v", took)
		}
		synctest.Wait()
		if srv.Stats().Ended[EndTimeout] != 1 {
			t.Error("the end is not counted as a timeout")
		}
		if ch := b.channel("t", "c"); ch.closed != 1 || len(ch.ready) != 2 {
			t.Errorf("closed %d, %d messages given back", ch.closed, len(ch.ready))
		}
	})
}

// A client that read all the time was disconnected in the middle of each large message, however often
// that was delivered, if it could not read the whole message within its heartbeat interval.
func TestSlowReaderGetsLargeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, conn := pipeServer(t, Options{})
		body := strings.Repeat("x", 1000<<10)
		var writing sync.WaitGroup
		writing.Go(func() {
			_, _ = io.WriteString(conn, nsq.Magic+"IDENTIFY\n"+sized(`{"heartbeat_interval":10000}`)+"SUB t c\nRDY 1\nPUB t\n"+sized(body))
			for {
				if _, err := io.WriteString(conn, "NOP\n"); err != nil {
					return
				}
				<-time.After(time.Second) // bubble time
			}
		})
		slow := io.Reader(readerFunc(func(p []byte) (int, error) {
			<-time.After(20 * time.Millisecond) // bubble time: at most 50 KiB/s
			return conn.Read(p[:min(len(p), 1<<10)])
		}))
		start := time.Now()
		for {
			kind, data, err := nsq.NewFrameReader(slow, 2<<20).Next()
			if err != nil {
				t.Errorf("ended after %v: %v", time.Since(start), err)
				break
			}
			if kind == nsq.FrameMessage {
				if len(data) < len(body) {
					t.Errorf("got %d bytes", len(data))
				}
				break
			}
		}
		_ = conn.Close()
		writing.Wait()
	})
}

// The time for a large message held for all that came after it, and was longer than the message timeout,
// after which the message is redelivered in any case.
func TestTimeForLargeMessageIsBounded(t *testing.T) {
	for _, x := range []struct {
		name, settings string
		reads          int // bytes of the body that the client reads
		ended          time.Duration
	}{
		{"reads the message, and nothing after it", `{"heartbeat_interval":10000}`, 1000 << 10, 26 * time.Second},
		{"reads nothing", `{"heartbeat_interval":10000,"msg_timeout":2000}`, 0, 19 * time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, conn := pipeServer(t, Options{})
				start := time.Now()
				var reading sync.WaitGroup
				reading.Go(func() { _, _ = io.CopyN(io.Discard, conn, int64(x.reads)+70) }) // with three answers
				_, _ = io.WriteString(conn, nsq.Magic+"IDENTIFY\n"+sized(x.settings)+"SUB t c\nRDY 1\nPUB t\n"+sized(strings.Repeat("x", 1000<<10)))
				for {
					if _, err := io.WriteString(conn, "NOP\n"); err != nil {
						break
					}
					<-time.After(time.Second) // bubble time
				}
				if took := time.Since(start); took > x.ended {
					t.Errorf("ended after %v", took)
				}
				_ = conn.Close()
				reading.Wait()
			})
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestWaitForPendingAnswersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, conn := pipeServer(t, Options{})
		start := time.Now()
		go func() { _, _ = io.WriteString(conn, nsq.Magic+"PUB held\n"+sized("a")+"HUH\n") }()
		var got []string
		frameTimes(conn, start, func(_ time.Duration, data string) { got = append(got, data) })
		if took := time.Since(start); took != 5*time.Second || len(got) != 0 {
			t.Errorf("ended after %v with %q", took, got)
		}
		b.release()
	})
}
