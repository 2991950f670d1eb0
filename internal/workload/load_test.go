package workload

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/measure"
	"github.com/brokerd/brokerd/pkg/client"
)

// acknowledging is the broker's end of a connection: it answers every command with OK, publishes after a time.
func acknowledging(nc net.Conn, after time.Duration) {
	defer func() { _ = nc.Close() }()
	in := bufio.NewReader(nc)
	if _, err := in.Discard(len("  V2")); err != nil {
		return
	}
	for {
		command, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var size [4]byte
		answer := "OK"
		switch word, _, _ := strings.Cut(strings.TrimSpace(command), " "); word {
		case "IDENTIFY":
			answer = `{"max_rdy_count":2500}`
		case "PUB", "MPUB":
			time.Sleep(after)
		default:
			continue // NOP
		}
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return
		}
		if _, err := in.Discard(int(binary.BigEndian.Uint32(size[:]))); err != nil {
			return
		}
		out := binary.BigEndian.AppendUint32(nil, uint32(4+len(answer)))
		out = append(binary.BigEndian.AppendUint32(out, 0), answer...)
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

// TestEndOfARunIsNoFailure: a run may end while a producer pauses until a message is due, or while its client waits
// for the answers to others before it sends one. The message that is not sent has not failed.
func TestEndOfARunIsNoFailure(t *testing.T) {
	const rounds = 10 // a producer may find its end and a free batch at the same time
	for _, tt := range []struct {
		name    string
		rate    float64
		answers time.Duration // of the broker
		atLeast int64         // messages published
	}{
		{name: "in a pause", rate: 1, atLeast: 2},
		{name: "in the client", answers: 2 * time.Second, atLeast: 1},
	} {
		for range rounds {
			synctest.Test(t, func(t *testing.T) {
				dial := func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					go acknowledging(far, tt.answers)
					return near, nil
				}
				c, err := client.New([]string{"broker:4150"}, client.WithDialer(dial), client.WithHeartbeat(time.Minute), client.WithMaxInFlightBytes(6000))
				if err != nil {
					t.Fatal(err)
				}
				l := &Load{topic: "t", o: LoadOptions{Duration: 1500 * time.Millisecond, Size: 4096, Batch: 1, Window: 2, Rate: tt.rate}}
				p := &producer{load: l, client: c, acks: measure.NewHistogram(), free: make(chan [][]byte, 2)}
				p.free <- l.bodies()
				p.free <- l.bodies()
				l.producers = []*producer{p}
				got, err := l.Run(t.Context())
				if err != nil || got.Counts.Failed != 0 || got.Counts.Messages < tt.atLeast {
					t.Errorf("%s: %+v, %v", tt.name, got.Counts, err)
				}
			})
		}
	}
}

// TestRefusedBatchIsAFailure: what the client refuses for another reason than the end of the run has failed.
func TestRefusedBatchIsAFailure(t *testing.T) {
	c, err := client.New([]string{"127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	l := &Load{topic: "not a name", o: LoadOptions{Messages: 1, Size: 16, Batch: 1, Window: 1}}
	p := &producer{load: l, client: c, acks: measure.NewHistogram(), free: make(chan [][]byte, 1)}
	p.free <- l.bodies()
	l.producers = []*producer{p}
	if got, err := l.Run(t.Context()); err == nil || got.Counts.Failed != 1 {
		t.Errorf("%+v, %v", got.Counts, err)
	}
}
