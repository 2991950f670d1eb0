package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/seq"
)

// id0 is the id of the first message of every topic of the fake broker.
var id0 = fakeIDs.First().String()

// TestExchanges describes the protocol as bytes in and frames out.
func TestExchanges(t *testing.T) {
	long := strings.Repeat("n", meta.MaxNameLength)
	tests := []struct {
		name string
		in   string
		want []string // "EOF": the connection ends
	}{
		{"publish", "PUB t\n" + sized("a"), []string{"OK"}},
		{"publish with carriage return", "PUB t\r\n" + sized("a"), []string{"OK"}},
		{"publish with surplus parameters", "PUB t x y z q r\n" + sized("a"), []string{"OK"}},
		{"publish to the longest name", "PUB " + long + "\n" + sized("a"), []string{"OK"}},
		{"publish to an ephemeral topic", "PUB t#ephemeral\n" + sized("a"), []string{"OK"}},
		{"batch", mpub("t", "a", "b"), []string{"OK"}},
		{"deferred", "DPUB t 1000\n" + sized("a"), []string{"OK"}},
		{"nop", "NOP\nPUB t\n" + sized("a"), []string{"OK"}},
		{"subscribe and close", "SUB quiet c\nRDY 1\nCLS\nRDY 1\n", []string{"OK", "CLOSE_WAIT"}},
		{"subscribe without RDY parameter", "SUB quiet c\nRDY\nCLS\n", []string{"OK", "CLOSE_WAIT"}},
		{"publish while subscribed", "SUB t c\nPUB t\n" + sized("a"), []string{"OK", "OK"}},

		{"unknown command", "HELLO world\n", []string{"E_INVALID invalid command HELLO", "EOF"}},
		{"lower case", "pub t\n", []string{"E_INVALID invalid command pub", "EOF"}},
		{"empty line", "\n", []string{"E_INVALID invalid command ", "EOF"}},
		{"line too long", strings.Repeat("x", 16<<10+1), []string{"EOF"}},

		{"PUB without topic", "PUB\n", []string{"E_INVALID PUB insufficient number of parameters", "EOF"}},
		{"PUB two spaces", "PUB  t\n", []string{`E_BAD_TOPIC PUB topic name "" is not valid`, "EOF"}},
		{"PUB bad name", "PUB a$b\n", []string{`E_BAD_TOPIC PUB topic name "a$b" is not valid`, "EOF"}},
		{"PUB dot", "PUB .\n", []string{`E_BAD_TOPIC PUB topic name "." is not valid`, "EOF"}},
		{"PUB dot dot", "PUB ..\n", []string{`E_BAD_TOPIC PUB topic name ".." is not valid`, "EOF"}},
		{"PUB name too long", "PUB " + long + "n\n", []string{`E_BAD_TOPIC PUB topic name "` + long + `n" is not valid`, "EOF"}},
		{"PUB empty body", "PUB t\n\x00\x00\x00\x00", []string{"E_BAD_MESSAGE PUB invalid message body size 0", "EOF"}},
		{"PUB negative body", "PUB t\n\xff\xff\xff\xff", []string{"E_BAD_MESSAGE PUB invalid message body size -1", "EOF"}},
		{"PUB oversize", "PUB t\n\x7f\xff\xff\xff", []string{"E_BAD_MESSAGE PUB message too big 2147483647 > 1000", "EOF"}},
		{"MPUB without topic", "MPUB\n", []string{"E_INVALID MPUB insufficient number of parameters", "EOF"}},
		{"MPUB dot dot", "MPUB ..\n", []string{`E_BAD_TOPIC E_BAD_TOPIC MPUB topic name ".." is not valid`, "EOF"}},
		{"MPUB bad name", "MPUB a$b\n", []string{`E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "a$b" is not valid`, "EOF"}},
		{"MPUB oversize", "MPUB t\n\x00\x00\xff\xff", []string{"E_BAD_BODY MPUB body too big 65535 > 5000", "EOF"}},
		{"MPUB empty", "MPUB t\n\x00\x00\x00\x00", []string{"E_BAD_BODY MPUB invalid body size 0", "EOF"}},
		{"MPUB no messages", "MPUB t\n" + sized("\x00\x00\x00\x00"), []string{"E_BAD_BODY MPUB invalid message count 0", "EOF"}},
		{"MPUB empty message", "MPUB t\n" + sized("\x00\x00\x00\x01\x00\x00\x00\x00x"), []string{"E_BAD_MESSAGE MPUB invalid message(0) body size 0", "EOF"}},
		{"MPUB message oversize", mpub("t", "ok", strings.Repeat("x", 1001)), []string{"E_BAD_MESSAGE MPUB message too big 1001 > 1000", "EOF"}},
		{"DPUB without delay", "DPUB t\n", []string{"E_INVALID DPUB insufficient number of parameters", "EOF"}},
		{"DPUB dot dot", "DPUB .. 1\n", []string{`E_BAD_TOPIC DPUB topic name ".." is not valid`, "EOF"}},
		{"DPUB bad name", "DPUB a$b 1\n", []string{`E_BAD_TOPIC DPUB topic name "a$b" is not valid`, "EOF"}},
		{"DPUB bad delay", "DPUB t -1\n", []string{"E_INVALID DPUB could not parse timeout -1", "EOF"}},
		{"DPUB overflow", "DPUB t 99999999999999999999\n", []string{"E_INVALID DPUB could not parse timeout 99999999999999999999", "EOF"}},
		{"DPUB too late", "DPUB t 3600001\n", []string{"E_INVALID DPUB timeout 3600001 out of range 0-3600000", "EOF"}},
		{"DPUB oversize", "DPUB t 1\n\x7f\xff\xff\xff", []string{"E_BAD_MESSAGE DPUB message too big 2147483647 > 1000", "EOF"}},

		{"publish failures keep the connection", "PUB busy\n" + sized("a") + mpub("busy", "a") + "DPUB busy 1\n" + sized("a") + "PUB t\n" + sized("a"), []string{
			"E_PUB_FAILED PUB failed, refused: too many bytes waiting to be written",
			"E_MPUB_FAILED MPUB failed, refused: too many bytes waiting to be written",
			"E_DPUB_FAILED DPUB failed, refused: too many bytes waiting to be written", "OK",
		}},
		{"uncertain publish says so", "PUB uncertain\n" + sized("a") + "PUB t\n" + sized("a"), []string{
			"E_PUB_FAILED PUB failed, outcome unknown: context deadline exceeded", "OK",
		}},
		{"publish to a name the broker refuses", "PUB strict\n" + sized("a"), []string{`E_BAD_TOPIC PUB topic name "strict" is not valid`, "EOF"}},
		{"publish above the topic's limit", "PUB t\n" + sized("a") + "PUB small\n" + sized("a"), []string{"OK", `E_BAD_MESSAGE PUB message too big for topic "small"`, "EOF"}},
		{"publish to an ordered topic", "PUB ordered\n" + sized("a"), []string{`E_BAD_PARTITION PUB to topic "ordered" needs a partition or a key`, "EOF"}},

		{"RDY before SUB", "RDY 1\n", []string{"E_INVALID cannot RDY in current state", "EOF"}},
		{"FIN before SUB", "FIN " + id0 + "\n", []string{"E_INVALID cannot FIN in current state", "EOF"}},
		{"REQ before SUB", "REQ " + id0 + " 1\n", []string{"E_INVALID cannot REQ in current state", "EOF"}},
		{"TOUCH before SUB", "TOUCH " + id0 + "\n", []string{"E_INVALID cannot TOUCH in current state", "EOF"}},
		{"CLS before SUB", "CLS\n", []string{"E_INVALID cannot CLS in current state", "EOF"}},
		{"SUB twice", "SUB t c\nSUB t c\n", []string{"OK", "E_INVALID cannot SUB in current state", "EOF"}},
		{"IDENTIFY after SUB", "SUB t c\nIDENTIFY\n", []string{"OK", "E_INVALID cannot IDENTIFY in current state", "EOF"}},
		{"AUTH after SUB", "SUB t c\nAUTH\n", []string{"OK", "E_INVALID cannot AUTH in current state", "EOF"}},
		{"CLS twice", "SUB t c\nCLS\nCLS\n", []string{"OK", "CLOSE_WAIT", "E_INVALID cannot CLS in current state", "EOF"}},

		{"SUB without channel", "SUB t\n", []string{"E_INVALID SUB insufficient number of parameters", "EOF"}},
		{"SUB dot dot", "SUB .. c\n", []string{`E_BAD_TOPIC SUB topic name ".." is not valid`, "EOF"}},
		{"SUB channel dot dot", "SUB t ..\n", []string{`E_BAD_CHANNEL SUB channel name ".." is not valid`, "EOF"}},
		{"SUB bad topic", "SUB a$b c\n", []string{`E_BAD_TOPIC SUB topic name "a$b" is not valid`, "EOF"}},
		{"SUB bad channel", "SUB t c$d\n", []string{`E_BAD_CHANNEL SUB channel name "c$d" is not valid`, "EOF"}},
		{"SUB refused", "SUB crowded c\n", []string{"E_SUB_FAILED SUB failed too many consumers on the channel", "EOF"}},
		{"SUB to a partition that is not there", "SUB t c 99\nCLS\n", []string{`E_BAD_PARTITION SUB topic "t" does not have the partition`, "EOF"}},
		{"RDY no number", "SUB t c\nRDY x\n", []string{"OK", "E_INVALID RDY could not parse count x", "EOF"}},
		{"RDY empty", "SUB t c\nRDY \n", []string{"OK", "E_INVALID RDY could not parse count ", "EOF"}},
		{"RDY negative", "SUB t c\nRDY -1\n", []string{"OK", "E_INVALID RDY could not parse count -1", "EOF"}},
		{"RDY too high", "SUB t c\nRDY 2501\n", []string{"OK", "E_INVALID RDY count 2501 out of range 0-2500", "EOF"}},
		{"FIN without id", "SUB t c\nFIN\n", []string{"OK", "E_INVALID FIN insufficient number of params", "EOF"}},
		{"FIN short id", "SUB t c\nFIN abc\n", []string{"OK", "E_INVALID invalid message ID", "EOF"}},
		{"REQ without delay", "SUB t c\nREQ " + id0 + "\n", []string{"OK", "E_INVALID REQ insufficient number of params", "EOF"}},
		{"REQ bad delay", "SUB t c\nREQ " + id0 + " x\n", []string{"OK", "E_INVALID REQ could not parse timeout x", "EOF"}},
		{"TOUCH without id", "SUB t c\nTOUCH\n", []string{"OK", "E_INVALID TOUCH insufficient number of params", "EOF"}},
		{"answers to unknown messages keep the connection", "SUB t c\nFIN " + id0 + "\nREQ " + id0 + " 1\nTOUCH " + id0 + "\nFIN zzzzzzzzzzzzzzzz\nCLS\n", []string{
			"OK", "E_FIN_FAILED FIN " + id0 + " failed ID not in flight",
			"E_REQ_FAILED REQ " + id0 + " failed ID not in flight",
			"E_TOUCH_FAILED TOUCH " + id0 + " failed ID not in flight",
			"E_FIN_FAILED FIN zzzzzzzzzzzzzzzz failed ID not in flight", "CLOSE_WAIT",
		}},

		{"IDENTIFY without negotiation", "IDENTIFY\n" + sized("{}"), []string{"OK"}},
		{"IDENTIFY negative size", "IDENTIFY\n\xff\xff\xff\xff", []string{"E_BAD_BODY IDENTIFY invalid body size -1", "EOF"}},
		{"IDENTIFY oversize", "IDENTIFY\n\x7f\xff\xff\xff", []string{"E_BAD_BODY IDENTIFY body too big 2147483647 > 5000", "EOF"}},
		{"IDENTIFY no JSON", "IDENTIFY\n" + sized("hello"), []string{"E_BAD_BODY IDENTIFY failed to decode JSON body", "EOF"}},
		{"IDENTIFY bad heartbeat", "IDENTIFY\n" + sized(`{"heartbeat_interval":999}`), []string{"E_BAD_BODY IDENTIFY heartbeat interval (999) is invalid", "EOF"}},
		{"IDENTIFY twice", "IDENTIFY\n" + sized("{}") + "IDENTIFY\n" + sized("{}"), []string{"OK", "OK"}},
		{"SUB without heartbeats", "IDENTIFY\n" + sized(`{"heartbeat_interval":-1}`) + "SUB t c\n", []string{"OK", "E_INVALID cannot SUB with heartbeats disabled", "EOF"}},
		{"both compressions", "IDENTIFY\n" + sized(`{"feature_negotiation":true,"snappy":true,"deflate":true}`), []string{"E_IDENTIFY_FAILED cannot enable both deflate and snappy compression", "EOF"}},
		{"AUTH off", "AUTH\n" + sized("x"), []string{"E_AUTH_DISABLED AUTH disabled", "EOF"}},
		{"AUTH with parameter", "AUTH x\n", []string{"E_INVALID AUTH invalid number of parameters", "EOF"}},
		{"AUTH empty", "AUTH\n\x00\x00\x00\x00", []string{"E_BAD_BODY AUTH invalid body size 0", "EOF"}},
		{"AUTH oversize", "AUTH\n\x00\x00\xff\xff", []string{"E_BAD_BODY AUTH body too big 65535 > 5000", "EOF"}},
		{"the helper's name is no command", "CREATE_TOPIC t 0\n", []string{"E_INVALID invalid command CREATE_TOPIC", "EOF"}},
	}
	h := newHarness(t, Options{MaxMessageBytes: 1000, MaxBodyBytes: 5000})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := h.dial(t)
			w.send(tt.in)
			w.expect(tt.want...)
		})
		t.Run(tt.name+", byte by byte", func(t *testing.T) {
			if len(tt.in) > 300 {
				t.Skip("too long")
			}
			w := h.dial(t)
			for i := range len(tt.in) {
				if _, err := w.Write([]byte(tt.in[i : i+1])); err != nil {
					break // the server has received enough
				}
			}
			w.expect(tt.want...)
		})
	}
}

func TestTruncatedBodyIsAnswered(t *testing.T) {
	h := newHarness(t, Options{})
	for _, tt := range []struct{ in, want string }{
		{"PUB t\n\x00\x00", "E_BAD_MESSAGE PUB failed to read message body size"},
		{"PUB t\n\x00\x00\x00\x09abc", "E_BAD_MESSAGE PUB failed to read message body"},
		{"DPUB t 1\n\x00\x00\x00\x09abc", "E_BAD_MESSAGE DPUB failed to read message body"},
		{"MPUB t\n\x00\x00", "E_BAD_BODY MPUB failed to read body size"},
		{"MPUB t\n\x00\x0f\x00\x09abc", "E_BAD_BODY MPUB failed to read message count"},
		{"IDENTIFY\n\x00\x00", "E_BAD_BODY IDENTIFY failed to read body size"},
		{"IDENTIFY\n\x00\x00\x00\x09abc", "E_BAD_BODY IDENTIFY failed to read body"},
		{"AUTH\n\x00\x00", "E_BAD_BODY AUTH failed to read body size"},
	} {
		w := h.dial(t)
		w.send(tt.in)
		if err := w.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		w.expect(tt.want, "EOF")
	}
}

func TestWrongMagicIsAnsweredWithoutText(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dialRaw(t)
	w.send("GET / HTTP/1.1\r\n\r\n")
	w.expect("E_BAD_PROTOCOL", "EOF")
}

func TestMessageGoesThroughItsStates(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.sub("t", 1)
	w.send("PUB t\n" + sized("hello"))
	got := []string{w.frame(), w.frame()} // the message may arrive before the answer
	if got[0] != "OK" {
		got[0], got[1] = got[1], got[0]
	}
	if want := "message " + id0 + " 42 1 hello"; got[0] != "OK" || got[1] != want {
		t.Fatalf("got %q", got)
	}
	w.send("TOUCH " + id0 + "\nREQ " + id0 + " 99999999999999999999999\n")
	w.expect("message " + id0 + " 42 2 hello")
	sub := h.broker.channel("t", "c").subs[0]
	if sub.touched.Load() != 1 || time.Duration(sub.delay.Load()) != DefaultMaxDelay {
		t.Errorf("touched %d, delay %v", sub.touched.Load(), time.Duration(sub.delay.Load()))
	}
	w.send("CLS\nFIN " + id0 + "\nFIN " + id0 + "\n")
	w.expect("CLOSE_WAIT", "E_FIN_FAILED FIN "+id0+" failed ID not in flight")
}

func TestClosedConsumerRequeuesMessages(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.sub("t", 10)
	p := h.dial(t)
	p.send(mpub("t", "a", "b"))
	p.expect("OK")
	w.frame()
	w.frame()
	_ = w.Close()
	next := h.dial(t)
	eventually(t, "the subscription is closed", func() bool {
		h.broker.mu.Lock()
		defer h.broker.mu.Unlock()
		return h.broker.topics["t"].subs["c"].closed == 1
	})
	next.sub("t", 10)
	for range 2 {
		if m := next.frame(); !strings.Contains(m, " 42 2 ") {
			t.Errorf("got %q", m)
		}
	}
}

func TestAnswersKeepTheOrderOfCommands(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.send("SUB s c\n")
	w.expect("OK")
	var in bytes.Buffer
	const rounds = 50
	for range rounds {
		in.WriteString("PUB held\n" + sized("a") + "PUB busy\n" + sized("b") + "FIN " + id0 + "\n")
	}
	w.send(in.String())
	// All publishes are in progress, and none is answered.
	eventually(t, "all publishes arrive", func() bool { return h.broker.heldCount() == rounds })
	h.broker.release()
	for range rounds {
		w.expect("OK", "E_PUB_FAILED PUB failed, refused: too many bytes waiting to be written",
			"E_FIN_FAILED FIN "+id0+" failed ID not in flight")
	}
}

func TestReaderWaitsAtPendingLimit(t *testing.T) {
	h := newHarness(t, Options{MaxPending: 3})
	w := h.dial(t)
	const total = 10
	w.send(strings.Repeat("PUB held\n"+sized("a"), total))
	for answered := 0; answered < total; {
		want := min(3, total-answered)
		eventually(t, "publishes arrive", func() bool { return h.broker.heldCount() == want })
		h.broker.release()
		for range want {
			w.expect("OK")
		}
		answered += want
	}
}

func TestPartitionParameter(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	for _, p := range []string{"2", "-1", "x"} {
		w.send("PUB t " + p + "\n" + sized("a"))
		w.expect("OK")
	}
	h.broker.mu.Lock()
	defer h.broker.mu.Unlock()
	want := []int{2, -1, -1}
	if fmt.Sprint(h.broker.partitions) != fmt.Sprint(want) {
		t.Errorf("asked for partitions %v, want %v", h.broker.partitions, want)
	}
}

// Every command with a partition parameter refuses a partition that the topic does not have,
// instead of storing the message elsewhere.
func TestUnknownPartitionIsRefused(t *testing.T) {
	h := newHarness(t, Options{})
	for _, p := range []string{"4", "1023", "1024", "9223372036854775807", "99999999999999999999"} {
		for command, verb := range map[string]string{
			"PUB t " + p + "\n" + sized("a"):                            "PUB",
			"DPUB t 0 " + p + "\n" + sized("a"):                         "DPUB",
			"MPUB t " + p + "\n" + sized("\x00\x00\x00\x01"+sized("a")): "MPUB",
			"SUB t c " + p + "\n":                                       "SUB",
		} {
			w := h.dial(t)
			w.send(command)
			w.expect("E_BAD_PARTITION "+verb+` topic "t" does not have the partition`, "EOF")
		}
	}
	if got := h.broker.bodies("t"); len(got) != 0 {
		t.Errorf("stored %q", got)
	}
}

// TestNamesSurviveSmallReads pipelines publishes to many topics through one-byte reads: names and
// bodies must not get mixed up.
func TestNamesSurviveSmallReads(t *testing.T) {
	h := newHarness(t, Options{})
	const topics, rounds = 40, 5
	one := &oneByteListener{make(chan net.Conn, 1)}
	served := make(chan error, 1)
	go func() { served <- h.Serve(t.Context(), one) }()
	client, server := net.Pipe()
	one.conns <- &oneByteConn{server}
	var in bytes.Buffer
	in.WriteString(nsq.Magic)
	for r := range rounds {
		for i := range topics {
			fmt.Fprintf(&in, "PUB topic-%d\n%s", i, sized(fmt.Sprintf("body-%d-%d", i, r)))
		}
	}
	go func() { _, _ = client.Write(in.Bytes()) }()
	w := &wire{t, client}
	for range topics * rounds {
		w.expect("OK")
	}
	for i := range topics {
		var want []string
		for r := range rounds {
			want = append(want, fmt.Sprintf("body-%d-%d", i, r))
		}
		if got := h.broker.bodies(fmt.Sprintf("topic-%d", i)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("topic-%d: %q", i, got)
		}
	}
	_ = client.Close()
	_ = one.Close()
	if err := <-served; err == nil {
		t.Error("Serve ended without an error")
	}
}

type oneByteConn struct{ net.Conn }

func (c *oneByteConn) Read(p []byte) (int, error) { return c.Conn.Read(p[:1]) }

type oneByteListener struct{ conns chan net.Conn }

func (l *oneByteListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *oneByteListener) Close() error {
	defer func() { _ = recover() }() // closed before
	close(l.conns)
	return nil
}

func (l *oneByteListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestHalfClosedPublisherGetsAnswers(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.send("PUB held\n" + sized("a") + "PUB t\n" + sized("b"))
	if err := w.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the publish arrives", func() bool { return h.broker.heldCount() == 1 })
	h.broker.release()
	w.expect("OK", "OK", "EOF")
}

func TestCloseIsAnsweredBeforeHalfClose(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.sub("t", 1)
	w.send("CLS\n")
	if err := w.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	w.expect("CLOSE_WAIT", "EOF")
}

// A closing consumer may be woken for a message. The broker can give it to another consumer only
// after this one has declined it.
func TestClosingConsumerAcknowledgesWake(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.sub("t", 1)
	w.send("CLS\n")
	w.expect("CLOSE_WAIT")
	sub := h.broker.channel("t", "c").subs[0]
	refused := func() int {
		h.broker.mu.Lock()
		defer h.broker.mu.Unlock()
		return sub.refused
	}
	before := refused()
	eventually(t, "it is asked again", func() bool {
		sub.wake()
		return refused() > before+1
	})
}

// The message size limit also applies to the body of a PUB, and may exceed the body limit.
func TestMessageMayExceedBodyLimit(t *testing.T) {
	h := newHarness(t, Options{MaxMessageBytes: 2000, MaxBodyBytes: 1000})
	w := h.dial(t)
	w.send("PUB t\n" + sized(strings.Repeat("x", 1500)))
	w.send(mpub("t", strings.Repeat("x", 1500)))
	w.expect("OK", "E_BAD_BODY MPUB body too big 1508 > 1000", "EOF")
}

func TestOversizeBodySenderReadsError(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = w.Write([]byte("PUB t\n" + sized(strings.Repeat("x", 8<<20))))
	}()
	w.expect("E_BAD_MESSAGE PUB message too big 8388608 > 1048576", "EOF")
	<-sent
}

func TestLargeMessagesAreDelivered(t *testing.T) {
	h := newHarness(t, Options{MaxMessageBytes: 4 << 20})
	w := h.dial(t)
	w.sub("t", 100)
	p := h.dial(t)
	var bodies []string
	for i := range 4 {
		bodies = append(bodies, strings.Repeat(string(rune('a'+i)), 1+i<<20))
	}
	p.send("PUB t\n" + sized(bodies[0]) + "PUB t\n" + sized(bodies[1]) + mpub("t", bodies[2][:1<<20], "small"))
	p.expect("OK", "OK", "OK")
	for i, want := range []string{bodies[0], bodies[1], bodies[2][:1<<20], "small"} {
		if got := w.frame(); !strings.HasSuffix(got, " "+want) {
			t.Errorf("message %d of %d bytes differs", i, len(got))
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	h := newHarness(t, Options{MaxConnections: 1})
	w := h.dial(t)
	w.send("PUB t\n" + sized("a"))
	w.expect("OK")
	h.dialRaw(t).expect("E_INVALID too many connections", "EOF")
	if n := h.Stats().Ended[EndLimit]; n != 1 {
		t.Errorf("%d connections refused", n)
	}
}

func TestBrokerDisconnectsConsumer(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.sub("t", 1)
	sub := h.broker.channel("t", "c").subs[0]
	sub.client.Unfinished(seq.NewMessageID(1, 10), errNotInFlight)
	w.expect("E_FIN_FAILED FIN " + fakeIDs.ID(seq.NewMessageID(1, 10)).String() + " failed ID not in flight")
	sub.client.Disconnect(errors.New("channel deleted"))
	w.expect("EOF")
	w = h.dial(t)
	w.sub("t", 1)
	h.broker.channel("t", "c").subs[1].breakWith(errors.New("term ended"))
	w.expect("EOF")
	eventually(t, "both are closed", func() bool { return h.Stats().Ended[EndBroker] == 2 })
}

func TestShutdownAnswersAndRequeues(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.sub("t", 1)
	w.send("PUB held\n" + sized("a"))
	eventually(t, "the publish arrives", func() bool { return h.broker.heldCount() == 1 })
	down := make(chan error, 1)
	go func() { down <- h.Shutdown(t.Context()) }()
	eventually(t, "all connections retire", h.allRetire)
	h.broker.release()
	w.expect("OK", "EOF")
	if err := <-down; err != nil {
		t.Error(err)
	}
	if ch := h.broker.channel("t", "c"); ch.closed != 1 {
		t.Error("the subscription was not closed")
	}
}

func TestShutdownIsBounded(t *testing.T) {
	h := newHarness(t, Options{CloseTimeout: time.Hour})
	w := h.dial(t)
	w.send("PUB held\n" + sized("a"))
	eventually(t, "the publish arrives", func() bool { return h.broker.heldCount() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	h.broker.release() // an answer whose client is gone
}

// A reader that appends itself waits for the disk, and cannot be interrupted.
func TestShutdownDoesNotWaitForStalledDisk(t *testing.T) {
	h := newHarness(t, Options{CloseTimeout: time.Hour})
	h.Server.abortTimeout = time.Millisecond
	h.broker.hang = make(chan struct{})
	arrived := make(chan struct{}, 1)
	h.broker.onPublish = func() { arrived <- struct{}{} }
	h.dial(t).send("PUB hung\n" + sized("a"))
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Shutdown(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 connections did not close") {
		t.Errorf("Shutdown: %v", err)
	}
	close(h.broker.hang)
}

func TestStatsCountEvents(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.send("IDENTIFY\n" + sized(`{"client_id":"me","hostname":"here","user_agent":"ua/1","msg_timeout":5000,"sample_rate":10}`))
	w.expect("OK")
	w.send(mpub("t", "a", "b") + "PUB t\n" + sized("c") + "PUB busy\n" + sized("c"))
	w.expect("OK", "OK", "E_PUB_FAILED PUB failed, refused: too many bytes waiting to be written")
	w.send("SUB t c\n")
	w.expect("OK")
	all := h.Clients()
	if len(all) != 1 {
		t.Fatalf("%d clients", len(all))
	}
	c := all[0]
	if c.ClientID != "me" || c.Hostname != "here" || c.UserAgent != "ua/1" || c.State != stateSubscribed ||
		c.SampleRate != 10 || c.PubCounts["t"] != 3 || len(c.PubCounts) != 1 {
		t.Errorf("client: %+v", c)
	}
	asked := h.broker.channel("t", "c").asked[0]
	if asked.MsgTimeout != 5*time.Second || asked.SampleRate != 10 || asked.Partition != -1 {
		t.Errorf("subscription: %+v", asked)
	}
	eventually(t, "commands are counted", func() bool {
		s := h.Stats()
		return s.Commands[nsq.Pub] == 2 && s.Commands[nsq.MPub] == 1 && s.Commands[nsq.Sub] == 1 && s.Errors[failure.PubFailed] == 1 &&
			s.Open == 1 && s.OpenConsumers == 1 && s.BytesIn > 0 && s.BytesOut > 0
	})
}
