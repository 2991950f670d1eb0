package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/test/audit"
)

func TestBodyNamesItsMessageAndRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for seq := range 50 {
		want := audit.Key{Producer: 3, Seq: seq}
		body := MakeBody(rng, 77, want)
		got, err := ParseBody(body, 77)
		if err != nil || got != want {
			t.Errorf("read %v, %v; want %v", got, err, want)
		}
		before := Sum(body)
		body[len(body)-1]++
		if Sum(body) == before {
			t.Error("a changed body has the same sum")
		}
		if _, err := ParseBody(body, 78); err == nil {
			t.Error("a body of another run is accepted")
		}
	}
	if _, err := ParseBody(make([]byte, bodyHeader-1), 0); err == nil {
		t.Error("a body without a header is accepted")
	}
}

func TestMessageFrameIsSplit(t *testing.T) {
	data := append(make([]byte, 10), "0123456789abcdefbody"...)
	d, err := ParseMessage(data)
	if err != nil || string(d.ID[:]) != "0123456789abcdef" || string(d.Body) != "body" {
		t.Errorf("read %q %q, %v", d.ID, d.Body, err)
	}
	if _, err := ParseMessage(data[:messageHeader-1]); err == nil {
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
		far.Write(append(frame(FrameResponse, "_heartbeat_"), frame(FrameError, "E_BAD_TOPIC")...))
		line, _ := bufio.NewReader(far).ReadString('\n')
		got <- line
	}()
	c := newClient(near, DefaultTimeout)
	kind, data, err := c.Answer()
	if err != nil || kind != FrameError || string(data) != "E_BAD_TOPIC" {
		t.Errorf("read %d %q, %v", kind, data, err)
	}
	if line := <-got; line != "NOP\n" {
		t.Errorf("answered the heartbeat with %q", line)
	}
}

func TestFrameThatIsTooLargeIsNotRead(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		far.Write(binary.BigEndian.AppendUint32(nil, maxFrame+1))
		far.Write(make([]byte, 4))
		far.Close()
	}()
	c := newClient(near, DefaultTimeout)
	if _, _, err := c.frame(); err == nil {
		t.Error("a frame over the limit is accepted")
	}
}

func TestReadTimeoutIsNoEOF(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c := newClient(near, DefaultTimeout)
	if _, _, err := c.AnswerBefore(time.Now()); !errors.Is(err, ErrQuiet) {
		t.Fatalf("%v where nothing came", err)
	}
	go func() {
		far.Write(frame(FrameResponse, "_heartbeat_"))
		_, _ = far.Read(make([]byte, 4)) // NOP
		far.Write(frame(FrameResponse, "OK"))
	}()
	kind, data, err := c.AnswerBefore(time.Now().Add(DefaultTimeout))
	if err != nil || kind != FrameResponse || string(data) != "OK" {
		t.Errorf("read %d %q, %v", kind, data, err)
	}
}

func TestHeartbeatsAreNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		go func() {
			far.Write(frame(FrameResponse, "_heartbeat_"))
			_, _ = far.Read(make([]byte, 4)) // NOP, and nothing else
		}()
		c := newClient(near, DefaultTimeout)
		if _, _, err := c.AnswerBefore(time.Now().Add(50 * time.Millisecond)); !errors.Is(err, ErrQuiet) {
			t.Errorf("%v after a heartbeat", err)
		}
	})
}
