package peer

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/pkg/fate"
)

func TestCallForSessionIsSentInNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		b, addr := node(t, memOptions(n, "b"), "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		var first uint64
		var answered []string
		var p *Peer
		send := func(session uint64, what string) error {
			return p.Send(session, 1, nil, func(_ []byte, err error) { answered = append(answered, fmt.Sprint(what, " ", err)) })
		}
		p = a.Peer("b", ClassForward, addr, OnUp(func(session uint64) {
			if first != 0 {
				return
			}
			first = session
			if err := send(session, "within OnUp"); err != nil {
				t.Errorf("within OnUp: %v", err)
			}
			if err := send(session+1, "another"); !errors.Is(err, errSessionOver) || fate.Of(err) != fate.Refused {
				t.Errorf("for another session: %v", err)
			}
		}))
		p.Hold()
		synctest.Wait()
		if err := send(first, "in the session"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		n.Break("a", "b")
		synctest.Wait()
		if err := send(first, "after the session"); !errors.Is(err, errSessionOver) {
			t.Errorf("after the session: %v", err)
		}
		time.Sleep(time.Second) // connected again
		if _, ok := p.Connected(); !ok {
			t.Fatal("not connected again")
		}
		if err := send(first, "long after"); !errors.Is(err, errSessionOver) {
			t.Errorf("in the next session: %v", err)
		}
		if err := send(0, "any"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := fmt.Sprint(answered); got != "[within OnUp <nil> in the session <nil> any <nil>]" {
			t.Error(got)
		}
		a.Close()
		b.Close()
	})
}

func TestHurriedPeerSkipsItsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a, _ := node(t, memOptions(n, "a"), "a:1")
		p := a.Peer("b", ClassForward, "b:1")
		p.Hold()
		time.Sleep(time.Minute) // the pauses have grown
		for {                   // until just after an attempt
			p.mu.Lock()
			pause := time.Until(p.retryAt)
			p.mu.Unlock()
			if pause > DefaultBackoffLast/2 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		b, _ := node(t, memOptions(n, "b"), "b:1")
		p.Hurry()
		synctest.Wait()
		if _, ok := p.Connected(); !ok {
			t.Error("not connected")
		}
		a.Close()
		b.Close()
	})
}
