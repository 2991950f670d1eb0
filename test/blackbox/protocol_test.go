package blackbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// badInput is what a hostile or broken client sends after the magic, and the expected answer. %s in
// a command stands for a message in flight.
var badInput = []struct {
	name, before, send, want string
	fatal                    bool
}{
	{"unknown command", "", "PUBLISH t\n", "E_INVALID invalid command PUBLISH", true},
	{"empty line", "", "\n", "E_INVALID invalid command", true},
	{"lower case", "", "pub t\n", "E_INVALID invalid command pub", true},
	{"IDENTIFY: size 0", "", "IDENTIFY\n\x00\x00\x00\x00", "E_BAD_BODY IDENTIFY invalid body size 0", true},
	{"IDENTIFY: negative size", "", "IDENTIFY\n\xff\xff\xff\xff", "E_BAD_BODY IDENTIFY invalid body size -1", true},
	{"IDENTIFY: size over the limit", "", "IDENTIFY\n\x7f\xff\xff\xff", "E_BAD_BODY IDENTIFY body too big 2147483647 > 65536", true},
	{"IDENTIFY: no JSON", "", "IDENTIFY\n" + sized("{"), "E_BAD_BODY IDENTIFY failed to decode JSON body", true},
	{"IDENTIFY: wrong type", "", "IDENTIFY\n" + sized(`{"client_id":1}`), "E_BAD_BODY IDENTIFY failed to decode JSON body", true},
	{"IDENTIFY: heartbeat too short", "", "IDENTIFY\n" + sized(`{"heartbeat_interval":999}`), "E_BAD_BODY IDENTIFY heartbeat interval (999) is invalid", true},
	{"IDENTIFY: heartbeat too long", "", "IDENTIFY\n" + sized(`{"heartbeat_interval":60001}`), "E_BAD_BODY IDENTIFY heartbeat interval (60001) is invalid", true},
	{"IDENTIFY: heartbeat -2", "", "IDENTIFY\n" + sized(`{"heartbeat_interval":-2}`), "E_BAD_BODY IDENTIFY heartbeat interval (-2) is invalid", true},
	{"IDENTIFY: buffer too small", "", "IDENTIFY\n" + sized(`{"output_buffer_size":63}`), "E_BAD_BODY IDENTIFY output buffer size (63) is invalid", true},
	{"IDENTIFY: buffer too big", "", "IDENTIFY\n" + sized(`{"output_buffer_size":65537}`), "E_BAD_BODY IDENTIFY output buffer size (65537) is invalid", true},
	{"IDENTIFY: buffer timeout", "", "IDENTIFY\n" + sized(`{"output_buffer_timeout":24}`), "E_BAD_BODY IDENTIFY output buffer timeout (24) is invalid", true},
	{"IDENTIFY: sample rate 100", "", "IDENTIFY\n" + sized(`{"sample_rate":100}`), "E_BAD_BODY IDENTIFY sample rate (100) is invalid", true},
	{"IDENTIFY: sample rate -1", "", "IDENTIFY\n" + sized(`{"sample_rate":-1}`), "E_BAD_BODY IDENTIFY sample rate (-1) is invalid", true},
	{"IDENTIFY: msg timeout", "", "IDENTIFY\n" + sized(`{"msg_timeout":999}`), "E_BAD_BODY IDENTIFY msg timeout (999) is invalid", true},
	{"IDENTIFY: both compressions", "", "IDENTIFY\n" + sized(`{"feature_negotiation":true,"snappy":true,"deflate":true}`), "E_IDENTIFY_FAILED cannot enable both deflate and snappy compression", true},
	{"IDENTIFY: subscribed", "sub", "IDENTIFY\n" + sized("{}"), "E_INVALID cannot IDENTIFY in current state", true},
	{"AUTH: disabled", "", "AUTH\n" + sized("secret"), "E_AUTH_DISABLED AUTH disabled", true},
	{"AUTH: parameters", "", "AUTH x\n" + sized("secret"), "E_INVALID AUTH invalid number of parameters", true},
	{"AUTH: subscribed", "sub", "AUTH\n" + sized("secret"), "E_INVALID cannot AUTH in current state", true},
	{"PUB: no topic", "", "PUB\n", "E_INVALID PUB insufficient number of parameters", true},
	{"PUB: two spaces", "", "PUB  t\n" + sized("x"), "E_BAD_TOPIC PUB topic name \"\" is not valid", true},
	{"PUB: bad name", "", pub("a$b", "x"), "E_BAD_TOPIC PUB topic name \"a$b\" is not valid", true},
	{"PUB: long name", "", pub(strings.Repeat("a", 65), "x"), "E_BAD_TOPIC PUB topic name", true},
	{"PUB: size 0", "", "PUB t\n\x00\x00\x00\x00", "E_BAD_MESSAGE PUB invalid message body size 0", true},
	{"PUB: negative size", "", "PUB t\n\x80\x00\x00\x00", "E_BAD_MESSAGE PUB invalid message body size -2147483648", true},
	{"PUB: too big", "", "PUB t\n\x00\x10\x00\x01", "E_BAD_MESSAGE PUB message too big 1048577 > 1048576", true},
	{"MPUB: no topic", "", "MPUB\n", "E_INVALID MPUB insufficient number of parameters", true},
	{"MPUB: bad name", "", mpub("a$", "x"), "E_BAD_TOPIC E_BAD_TOPIC MPUB topic name \"a$\" is not valid", true},
	{"MPUB: size 0", "", "MPUB t\n\x00\x00\x00\x00", "E_BAD_BODY MPUB invalid body size 0", true},
	{"MPUB: too big", "", "MPUB t\n\x00\x50\x00\x01", "E_BAD_BODY MPUB body too big 5242881 > 5242880", true},
	{"MPUB: no message", "", "MPUB t\n\x00\x00\x00\x04\x00\x00\x00\x00", "E_BAD_BODY MPUB invalid message count 0", true},
	{"MPUB: more messages than fit", "", "MPUB t\n\x00\x00\x00\x09\x7f\xff\xff\xff\x00\x00\x00\x01x", "E_BAD_BODY MPUB invalid message count 2147483647", true},
	{"MPUB: an empty message", "", mpub("t", "x", ""), "E_BAD_MESSAGE MPUB invalid message(1) body size 0", true},
	{"MPUB: more in all than the limit", "", "MPUB t\n\x00\x00\x00\x01\x00\x0f\xff\xff\x00\x00\x00\x02xx\x00\x00\x00\x02xx", "E_BAD_BODY MPUB body too big 5242881 > 5242880", true},
	{"MPUB: a message too big", "", mpub("t", strings.Repeat("x", 1<<20+1)), "E_BAD_MESSAGE MPUB message too big 1048577 > 1048576", true},
	{"DPUB: no delay", "", "DPUB t\n", "E_INVALID DPUB insufficient number of parameters", true},
	{"DPUB: a word", "", "DPUB t soon\n" + sized("x"), "E_INVALID DPUB could not parse timeout soon", true},
	{"DPUB: a sign", "", "DPUB t -1\n" + sized("x"), "E_INVALID DPUB could not parse timeout -1", true},
	{"DPUB: too long", "", "DPUB t 3600001\n" + sized("x"), "E_INVALID DPUB timeout 3600001 out of range 0-3600000", true},
	{"DPUB: overflow", "", "DPUB t 99999999999999999999\n" + sized("x"), "E_INVALID DPUB", true},
	{"SUB: no channel", "", "SUB t\n", "E_INVALID SUB insufficient number of parameters", true},
	{"SUB: bad topic", "", "SUB t$ c\n", "E_BAD_TOPIC SUB topic name \"t$\" is not valid", true},
	{"SUB: bad channel", "", "SUB t c$\n", "E_BAD_CHANNEL SUB channel name \"c$\" is not valid", true},
	{"SUB: twice", "sub", "SUB t c\n", "E_INVALID cannot SUB in current state", true},
	{"SUB: heartbeats off", "IDENTIFY\n" + sized(`{"heartbeat_interval":-1}`), "SUB t c\n", "E_INVALID cannot SUB with heartbeats disabled", true},
	{"RDY: too early", "", "RDY 1\n", "E_INVALID cannot RDY in current state", true},
	{"RDY: a word", "sub", "RDY many\n", "E_INVALID RDY could not parse count many", true},
	{"RDY: too many", "sub", "RDY 2501\n", "E_INVALID RDY count 2501 out of range 0-2500", true},
	{"RDY: a sign", "sub", "RDY -1\n", "E_INVALID RDY could not parse count -1", true},
	{"FIN: too early", "", "FIN 0123456789abcdef\n", "E_INVALID cannot FIN in current state", true},
	{"FIN: no id", "sub", "FIN\n", "E_INVALID FIN insufficient number of params", true},
	{"FIN: short id", "sub", "FIN 0123\n", "E_INVALID invalid message ID", true},
	{"FIN: unknown id", "sub", "FIN 0123456789abcdef\n", "E_FIN_FAILED FIN 0123456789abcdef failed", false},
	{"FIN: no hex", "sub", "FIN zzzzzzzzzzzzzzzz\n", "E_FIN_FAILED FIN zzzzzzzzzzzzzzzz failed", false},
	{"REQ: too early", "", "REQ 0123456789abcdef 0\n", "E_INVALID cannot REQ in current state", true},
	{"REQ: no delay", "sub", "REQ 0123456789abcdef\n", "E_INVALID REQ insufficient number of params", true},
	{"REQ: a word", "sub", "REQ 0123456789abcdef soon\n", "E_INVALID REQ could not parse timeout soon", true},
	{"REQ: unknown id", "sub", "REQ 0123456789abcdef 0\n", "E_REQ_FAILED REQ 0123456789abcdef failed", false},
	{"TOUCH: unknown id", "sub", "TOUCH 0123456789abcdef\n", "E_TOUCH_FAILED TOUCH 0123456789abcdef failed", false},
	{"TOUCH: no id", "sub", "TOUCH\n", "E_INVALID TOUCH insufficient number of params", true},
	{"CLS: too early", "", "CLS\n", "E_INVALID cannot CLS in current state", true},
	{"CLS: twice", "closing", "CLS\n", "E_INVALID cannot CLS in current state", true},
	{"SUB: closing", "closing", "SUB t c\n", "E_INVALID cannot SUB in current state", true},
	{"FIN: closing", "closing", "FIN 0123456789abcdef\n", "E_FIN_FAILED", false},
}

// Each bad input is answered with its error, closes the connection if the error is fatal, and
// affects no other connection. Each is also sent byte by byte.
func TestBadInputAffectsNoOtherClient(t *testing.T) {
	n := startNode(t)
	witness := n.consumer("witness", "c", 1, "{}")
	for i, tt := range badInput {
		for _, slowly := range []bool{false, true} {
			if slowly && len(tt.send) > 200 {
				continue
			}
			t.Run(fmt.Sprintf("%s/slowly=%v", tt.name, slowly), func(t *testing.T) {
				w := n.dial()
				w.t = t
				switch tt.before {
				case "sub", "closing":
					w.send(fmt.Sprintf("SUB bad%d c\n", i))
					w.ok()
					if tt.before == "closing" {
						w.send("CLS\nRDY 1\n")
						if got := w.response(); got != "CLOSE_WAIT" {
							t.Fatal(got)
						}
					}
				case "":
				default:
					w.send(tt.before)
					w.ok()
				}
				w.sendInPieces(tt.send, slowly)
				w.fails(tt.want)
				if tt.fatal {
					w.closed()
				} else {
					w.alive("other")
				}
			})
		}
	}
	n.post("/pub?topic=witness", "still here")
	witness.fin(witness.message())
	for _, topic := range n.topics() {
		if topic.Name == "t" {
			t.Errorf("a refused command has left something behind: %+v", topic)
		}
	}
}

func (w *wire) sendInPieces(data string, slowly bool) {
	w.t.Helper()
	if !slowly {
		w.send(data)
		return
	}
	for i := range len(data) {
		// The previous input may have closed the connection.
		if _, err := io.WriteString(w, data[i:i+1]); err != nil {
			return
		}
	}
}

// The size before an MPUB is only an upper bound: published clients omit the count or all numbers
// from it. The batch is stored as a whole, and the next command is parsed correctly.
func TestBatchIsFramedByInnerSizes(t *testing.T) {
	n := startNode(t)
	const head, limit = len("MPUB framed\n"), 5 << 20
	bodies := []string{"one", "three", strings.Repeat("!", 200<<10)}
	text := mpub("framed", bodies...)
	whole := len(text) - head - 4
	c := n.consumer("framed", "c", 1, "{}")
	for _, size := range []int{whole, whole - 4, whole - 4 - 4*len(bodies), 1, whole + 1, limit} {
		w := n.dial()
		w.send(text[:head] + string(binary.BigEndian.AppendUint32(nil, uint32(size))) + text[head+4:] + pub("framed", "after"))
		w.ok()
		w.ok()
		for i, want := range append(bodies, "after") {
			m := c.message()
			if m.body != want {
				t.Fatalf("size %d: message %d has %d bytes, want %d", size, i, len(m.body), len(want))
			}
			c.fin(m)
		}
	}
}

// A truncated stream is executed up to its last complete command.
func TestTruncatedStreamCountsUpToLastCompleteCommand(t *testing.T) {
	n := startNode(t)
	first := "IDENTIFY\n" + sized("{}") + pub("cut", "one")
	whole := first + mpub("cut", "two", "three") + pub("cut", "four")
	n.post("/topic/create?topic=cut", "")
	var stored int64
	for cut := range len(whole) + 1 {
		w := n.dial()
		w.send(whole[:cut])
		if err := w.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for {
			kind, data, err := w.next(patience)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if kind == frameError && !strings.HasPrefix(data, "E_BAD_") {
				t.Fatalf("cut at %d: %q", cut, data)
			}
		}
		if cut >= len(first) {
			stored++
		}
		if cut >= len(whole)-len(pub("cut", "four")) {
			stored += 2
		}
		if cut == len(whole) {
			stored++
		}
	}
	if got, _ := n.topic("cut"); got.Messages != stored || got.Depth != stored {
		t.Errorf("%+v, want %d messages", got, stored)
	}
}

// Declared sizes allocate nothing before the data arrives.
func TestOtherProtocolMagics(t *testing.T) {
	n := startNode(t)
	w := n.raw()
	w.send("  V1")
	if got := w.fails("E_BAD_PROTOCOL"); got != "E_BAD_PROTOCOL" {
		t.Errorf("%q", got)
	}
	w.closed()
	w = n.raw()
	w.send("GET / HTTP/1.1\r\n\r\n")
	w.fails("E_BAD_PROTOCOL")
	w.closed()
	w = n.dial()
	w.send("PUB " + strings.Repeat("x", 17<<10))
	w.closed()
	// a carriage return before the end of a line, and surplus words
	w = n.dial()
	w.send("PUB crlf a 2 3\r\n" + sized("x"))
	if kind, data, err := w.next(patience); err != nil || (kind == frameResponse && data != "OK") {
		t.Errorf("%d %q %v", kind, data, err)
	}
	// pipelining: answers in order
	w = n.dial()
	var all strings.Builder
	for i := range 500 {
		all.WriteString(pub("pipe", fmt.Sprint(i)))
		all.WriteString("NOP\n")
	}
	w.send(all.String() + "SUB pipe c\nRDY 2500\n")
	for range 501 {
		w.ok()
	}
	for i := range 500 {
		m := w.message()
		if m.body != fmt.Sprint(i) || m.attempts != 1 {
			t.Fatalf("message %d is %+v", i, m)
		}
		w.fin(m)
	}
	eventually(t, "all finished", func() bool {
		c := n.channel("pipe", "c")
		return c.Depth == 0 && c.InFlight == 0
	})
}

// A client that requests a heartbeat each second gets it while messages flow. One that does not
// answer is disconnected after two of them.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	begin := time.Now()
	busy := n.consumer("beats", "c", 100, `{"heartbeat_interval":1000}`)
	dead := n.identify(`{"heartbeat_interval":1000}`)
	publisher := n.dial()
	for busy.beats < 3 && time.Since(begin) < patience {
		publisher.send(pub("beats", "x"))
		publisher.ok()
		busy.fin(busy.message())
	}
	if took := time.Since(begin); busy.beats < 3 || busy.beats > int(took/time.Second)+1 {
		t.Errorf("%d heartbeats in %v", busy.beats, took)
	}
	beats := 0
	for {
		_, data, err := dead.frame(patience)
		if err != nil {
			break
		}
		if data != "_heartbeat_" {
			t.Errorf("%q", data)
		}
		beats++
	}
	if beats < 1 || beats > 2 {
		t.Errorf("%d heartbeats before a silent client is dropped", beats)
	}
}
