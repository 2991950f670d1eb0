package server

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/pkg/limit"
)

func TestLongReadsCountAsBursts(t *testing.T) {
	for name, c := range map[string]struct{ bytes, want int }{"short": {burst - 1, 0}, "long": {burst, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := limit.NewTurns(1)
				turns.Acquire()
				defer turns.Give()
				var conns []*meteredConn
				var reads sync.WaitGroup
				for range 3 {
					near, far := net.Pipe()
					defer func() { _, _ = near.Close(), far.Close() }()
					conn := &meteredConn{Conn: near, counters: new(counters), turns: turns, idle: func() {}}
					conns = append(conns, conn)
					go func() { _, _ = far.Write(make([]byte, c.bytes)) }()
					reads.Go(func() { _, _ = conn.Read(make([]byte, burst)) })
				}
				synctest.Wait()
				if n := turns.Waiting(); n != c.want {
					t.Errorf("%d of three connections wait for a turn, want %d", n, c.want)
				}
				turns.Give()
				reads.Wait()
				turns.Acquire()
				for _, conn := range conns {
					conn.endBurst()
				}
				for range 2 { // so that there are no others
					turns.Burst()
				}
				if n := turns.Waiting(); n != 0 {
					t.Errorf("%d bursts wait though those before have ended", n)
				}
			})
		})
	}
}
