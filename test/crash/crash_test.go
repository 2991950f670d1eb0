package main

import (
	"bufio"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/test/crash/audit"
)

func TestABodyNamesItsMessageAndRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for seq := range 50 {
		want := audit.Key{Producer: 3, Seq: seq}
		body := makeBody(rng, 77, want)
		got, err := parseBody(body, 77)
		if err != nil || got != want {
			t.Errorf("read %v, %v; want %v", got, err, want)
		}
		before := sum(body)
		body[len(body)-1]++
		if sum(body) == before {
			t.Error("a changed body has the same sum")
		}
		if _, err := parseBody(body, 78); err == nil {
			t.Error("a body of another run is accepted")
		}
	}
	if _, err := parseBody(make([]byte, bodyHeader-1), 0); err == nil {
		t.Error("a body without a header is accepted")
	}
}

func TestAMessageFrameIsSplit(t *testing.T) {
	data := append(make([]byte, 10), "0123456789abcdefbody"...)
	d, err := parseMessage(data)
	if err != nil || string(d.id[:]) != "0123456789abcdef" || string(d.body) != "body" {
		t.Errorf("read %q %q, %v", d.id, d.body, err)
	}
	if _, err := parseMessage(data[:messageHeader-1]); err == nil {
		t.Error("a short frame is accepted")
	}
}

// frame returns the bytes of a frame.
func frame(kind uint32, data string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(data)))
	return append(binary.BigEndian.AppendUint32(b, kind), data...)
}

func TestHeartbeatsAreAnsweredBetweenAnswers(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	got := make(chan string, 1)
	go func() {
		far.Write(append(frame(frameResponse, "_heartbeat_"), frame(frameError, "E_BAD_TOPIC")...))
		line, _ := bufio.NewReader(far).ReadString('\n')
		got <- line
	}()
	c := &client{near, bufio.NewReader(near), bufio.NewWriter(near)}
	kind, data, err := c.answer()
	if err != nil || kind != frameError || string(data) != "E_BAD_TOPIC" {
		t.Errorf("read %d %q, %v", kind, data, err)
	}
	if line := <-got; line != "NOP\n" {
		t.Errorf("answered the heartbeat with %q", line)
	}
}

func TestAFrameThatIsTooLargeIsNotRead(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		far.Write(binary.BigEndian.AppendUint32(nil, maxFrame+1))
		far.Write(make([]byte, 4))
		far.Close()
	}()
	c := &client{near, bufio.NewReader(near), bufio.NewWriter(near)}
	if _, _, err := c.frame(); err == nil {
		t.Error("a frame over the limit is accepted")
	}
}

func TestStallsAreTheTimeBeyondTheProbesInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stalls
		if got := s.take(); got != 0 {
			t.Errorf("a stall of %v before the first probe", got)
		}
		time.Sleep(probeInterval)
		s.succeed(time.Now())
		if got := s.take(); got != 0 {
			t.Errorf("a stall of %v where there was none", got)
		}
		time.Sleep(probeInterval + 300*time.Millisecond)
		s.succeed(time.Now())
		time.Sleep(10 * time.Millisecond)
		if got := s.take(); got != 300*time.Millisecond {
			t.Errorf("a stall of %v, want 300ms", got)
		}
		time.Sleep(probeInterval + 200*time.Millisecond)
		if got := s.take(); got != 200*time.Millisecond {
			t.Errorf("a stall of %v that goes on, want 200ms", got)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	good := options{rounds: 1, rate: 1, producers: 1}
	if err := good.validate(); err != nil || good.seed == 0 {
		t.Errorf("%v, seed %d", err, good.seed)
	}
	for _, bad := range []options{
		{rounds: 1, producers: 1}, {rounds: 1, rate: 1}, {rate: 1, producers: 1}, {rounds: -1, rate: 1, producers: 1},
	} {
		if bad.validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestABrokerThatIsNotBuiltIsNamed(t *testing.T) {
	if _, err := newBroker(filepath.Join(t.TempDir(), "brokerd"), t.TempDir()); err == nil {
		t.Error("a program that is not there is accepted")
	}
}
