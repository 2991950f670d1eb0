package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// nullBroker accepts everything immediately and delivers one message repeatedly, so that only the
// sessions are measured.
type nullBroker struct{ body []byte }

func (nullBroker) Publish(_ context.Context, p publish.Request) {
	p.Done(topic.Receipt{Count: len(p.Messages)})
}

func (b nullBroker) Subscribe(context.Context, consume.Subscribe) (Subscription, error) {
	return &nullSub{body: b.body}, nil
}

func (nullBroker) Topic(string) (*meta.Topic, error) { return nil, failure.TopicNotFound }

type nullSub struct {
	body []byte

	mu              sync.Mutex // guards the following
	ready, inFlight int
	next            seq.Offset
}

func (s *nullSub) Take(_ time.Time, most int, emit func(*topic.Delivery) error) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most = min(most, s.ready-s.inFlight)
	d := topic.Delivery{Body: s.body, Attempts: 1}
	for n := range max(most, 0) {
		d.ID = seq.NewMessageID(0, s.next)
		if err := emit(&d); err != nil {
			return n, err
		}
		s.next++
		s.inFlight++
	}
	return max(most, 0), nil
}

func (s *nullSub) Deliverable(time.Time) bool { return true }

func (s *nullSub) SetReady(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = n
}

func (s *nullSub) Finish(seq.MessageID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	return nil
}

func (s *nullSub) AtHand() bool             { return false }
func (s *nullSub) Waits() bool              { return false }
func (s *nullSub) Numbering() seq.Numbering { return fakeIDs }

func (s *nullSub) Requeue(seq.MessageID, time.Duration) error { return nil }
func (s *nullSub) Touch(seq.MessageID) error                  { return nil }
func (s *nullSub) StopDelivery()                              { s.SetReady(0) }
func (s *nullSub) Close()                                     {}

func benchConn(b *testing.B) net.Conn {
	b.Helper()
	null := nullBroker{[]byte(strings.Repeat("x", 128))}
	srv, err := New(Options{}, Broker{null, null, null}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		if err := srv.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		<-served
	})
	if _, err := io.WriteString(conn, nsq.Magic); err != nil {
		b.Fatal(err)
	}
	return conn
}

const benchOK = "\x00\x00\x00\x06\x00\x00\x00\x00OK"

// BenchmarkPub sends one pipelined PUB of 128 bytes per iteration.
func BenchmarkPub(b *testing.B) {
	conn := benchConn(b)
	const batch = 256
	in := []byte(strings.Repeat("PUB t\n"+sized(strings.Repeat("x", 128)), batch))
	benchExchange(b, conn, in, batch*len(benchOK), batch)
}

// BenchmarkMPUB sends one MPUB of 200 messages of 128 bytes per iteration.
func BenchmarkMPUB(b *testing.B) {
	conn := benchConn(b)
	const batch = 200
	bodies := make([]string, batch)
	for i := range bodies {
		bodies[i] = strings.Repeat("x", 128)
	}
	in := []byte(mpub("t", bodies...))
	benchExchange(b, conn, in, len(benchOK), batch)
}

// benchExchange sends so many messages and reads so many bytes per iteration.
func benchExchange(b *testing.B, conn net.Conn, in []byte, answer, messages int) {
	drain := make([]byte, answer)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(in); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, drain); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(messages), "ns/msg")
}

// BenchmarkDeliver delivers and finishes one message of 128 bytes per iteration, with 1,000 in
// flight.
func BenchmarkDeliver(b *testing.B) {
	conn := benchConn(b)
	if _, err := io.WriteString(conn, "SUB t c\nRDY 1000\n"); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len(benchOK))); err != nil {
		b.Fatal(err)
	}
	frame := (&nsq.Message{Body: make([]byte, 128)}).Size()
	const batch = 250
	in := make([]byte, batch*frame)
	var fins []byte
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.ReadFull(conn, in); err != nil {
			b.Fatal(err)
		}
		fins = fins[:0]
		for at := 0; at < len(in); at += frame {
			fins = append(fins, "FIN "...)
			fins = append(fins, in[at+18:at+34]...)
			fins = append(fins, '\n')
		}
		if _, err := conn.Write(fins); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/msg")
}
