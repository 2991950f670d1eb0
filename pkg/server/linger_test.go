package server

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/limit"
)

// endless is a connection whose client never stops sending.
type endless struct {
	net.Conn
	read int
}

func (*endless) CloseWrite() error { return nil }

func (*endless) SetReadDeadline(time.Time) error { return nil }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// The rest of refused input is read for a second, at the rate that all connections share.
func TestDroppedInputIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			drops *limit.Drops
			want  int
		}{
			{limit.NewDrops(1 << 20), 1 << 20},
			{nil, maxLinger - freeOfTurns},
		} {
			e := &endless{}
			began := time.Now()
			(&meteredConn{Conn: e}).linger(time.Second, c.drops)
			if e.read != c.want {
				t.Errorf("%d bytes were dropped, not %d", e.read, c.want)
			}
			if took := time.Since(began); took >= time.Second {
				t.Errorf("it took %v", took)
			}
		}
	})
}
