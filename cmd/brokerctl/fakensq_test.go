package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// fakeNSQ is an in-memory broker of one topic and one channel that speaks the necessary part of the
// NSQ protocol. It delivers up to RDY and expects every message to be finished once.
type fakeNSQ struct {
	address string
	refuse  string // the error frame that answers every publish; "": none

	mu       sync.Mutex // guards the fields below
	log      []string   // bodies; the id of a message is its index
	next     int        // the first that was not delivered
	finished map[string]int
	requeued int
	stored   map[string]int // messages by the partition parameter of their publish
	dieAfter int            // the number of publishes or finishes after which it stops; 0: never
	listener net.Listener
	all      map[net.Conn]bool
	members  map[*nsqConn]bool
}

// nsqConn is one connection. Its fields are guarded by the broker's mutex.
type nsqConn struct {
	nc       net.Conn
	ready    int
	inFlight int
}

func newFakeNSQ(t *testing.T, bodies ...string) *fakeNSQ {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeNSQ{
		address: l.Addr().String(), log: bodies, finished: map[string]int{}, members: map[*nsqConn]bool{},
		stored: map[string]int{}, listener: l, all: map[net.Conn]bool{},
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { f.serve(nc) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return f
}

func (f *fakeNSQ) serve(nc net.Conn) {
	c := &nsqConn{nc: nc}
	f.mu.Lock()
	f.all[nc] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.members, c)
		delete(f.all, nc)
		f.mu.Unlock()
		_ = nc.Close()
	}()
	r := bufio.NewReader(nc)
	if _, err := r.Discard(len("  V2")); err != nil {
		return
	}
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(text)
		f.mu.Lock()
		err = f.command(c, words, r)
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// command executes one command and delivers messages that became deliverable.
func (f *fakeNSQ) command(c *nsqConn, words []string, r io.Reader) error {
	switch words[0] {
	case "IDENTIFY":
		if _, err := readBody(r); err != nil {
			return err
		}
		return send(c.nc, 0, `{"max_rdy_count":2500,"version":"1.3.0"}`)
	case "PUB", "MPUB":
		body, err := readBody(r)
		if err != nil {
			return err
		}
		if f.dies() {
			return io.EOF // unanswered
		}
		where := ""
		if len(words) > 2 {
			where = words[2]
		}
		f.stored[where]++
		if f.refuse != "" {
			return send(c.nc, 1, f.refuse)
		}
		if words[0] == "PUB" {
			f.log = append(f.log, body)
		} else {
			f.log = append(f.log, split(body)...)
		}
		if err := send(c.nc, 0, "OK"); err != nil {
			return err
		}
	case "SUB":
		f.members[c] = true
		return send(c.nc, 0, "OK")
	case "RDY":
		_, _ = fmt.Sscan(words[1], &c.ready)
	case "FIN":
		f.finished[words[1]]++
		c.inFlight--
		if f.dies() {
			return io.EOF
		}
	case "REQ":
		f.requeued++
		c.inFlight--
	case "CLS":
		delete(f.members, c)
		return send(c.nc, 0, "CLOSE_WAIT")
	}
	return f.deliver()
}

// dies stops the broker when it has reached its limit.
func (f *fakeNSQ) dies() bool {
	if f.dieAfter == 0 {
		return false
	}
	if f.dieAfter--; f.dieAfter > 0 {
		return false
	}
	f.dieAfter = 1 // stay dead
	_ = f.listener.Close()
	for nc := range f.all {
		_ = nc.Close()
	}
	return true
}

func (f *fakeNSQ) deliver() error {
	for c := range f.members {
		for ; c.inFlight < c.ready && f.next < len(f.log); f.next++ {
			head := binary.BigEndian.AppendUint64(nil, uint64(clock().UnixNano()))
			head = binary.BigEndian.AppendUint16(head, 1)
			if err := send(c.nc, 2, fmt.Sprintf("%s%016x%s", head, f.next, f.log[f.next])); err != nil {
				return err
			}
			c.inFlight++
		}
	}
	return nil
}

func send(w io.Writer, kind uint32, data string) error {
	raw := binary.BigEndian.AppendUint32(nil, uint32(len(data)+4))
	raw = binary.BigEndian.AppendUint32(raw, kind)
	_, err := w.Write(append(raw, data...))
	return err
}

func readBody(r io.Reader) (string, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, body)
	return string(body), err
}

// split splits the body of an MPUB.
func split(body string) []string {
	var out []string
	for rest := []byte(body[4:]); len(rest) > 0; {
		n := binary.BigEndian.Uint32(rest)
		out = append(out, string(rest[4:4+n]))
		rest = rest[4+n:]
	}
	return out
}

// outcome returns how many messages exist, were finished once, and were requeued.
func (f *fakeNSQ) outcome() (stored, finished, requeued int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.finished {
		if n == 1 {
			finished++
		}
	}
	return len(f.log), finished, f.requeued
}
