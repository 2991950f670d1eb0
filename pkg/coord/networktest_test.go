package coord_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
)

// diary records the events of a link, in order.
type diary struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// read returns the events since the last call, once nothing is in transit.
func (d *diary) read() string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	text := fmt.Sprint(d.lines)
	d.lines = nil
	return text
}

func (d *diary) events() coord.LinkEvents {
	return coord.LinkEvents{
		Up:   func() { d.write("up") },
		Down: func(refused bool) { d.write("down %v", refused) },
	}
}

func (d *diary) call(l coord.Link, text string) {
	l.Go(1, [][]byte{[]byte(text)}, func(p []byte, err error) {
		if err != nil {
			d.write("%s: %v", text, errors.Is(err, errBroken))
			return
		}
		d.write("%s", p)
	})
}

func echo(_ meta.NodeID, _ uint8, p []byte, reply func([]byte)) { reply(append(p, '!')) }

func TestCallsAreAnsweredInOrderAndSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, d := NewNetwork(), &diary{}
		expect := func(want string) {
			t.Helper()
			if got := d.read(); got != want {
				t.Errorf("the link got the events %s, want %s", got, want)
			}
		}
		link := n.Peers("a").Follow("b", d.events())
		expect("[down true]")
		d.call(link, "early")
		expect("[early: true]")
		n.Serve("b", echo)
		expect("[up]")
		for i := range 3 {
			d.call(link, fmt.Sprint(i))
		}
		expect("[0! 1! 2!]")

		n.SetDelay(func(_, _ meta.NodeID) time.Duration { return time.Second })
		d.call(link, "slow")
		<-time.After(1999 * time.Millisecond)
		expect("[]")
		<-time.After(2 * time.Millisecond)
		expect("[slow!]")
		d.call(link, "lost")
		n.Break("a", "b")
		expect("[lost: true down false]") // before the next session
		<-time.After(1001 * time.Millisecond)
		expect("[up]")

		n.Kill("b")
		expect("[down true]")
		link.Close()
		n.Serve("b", echo)
		<-time.After(2 * time.Second)
		expect("[]")
		n.Wait()
	})
}

func TestCutEndsItsSession(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, d := NewNetwork(), &diary{}
			n.Serve("b", echo)
			link := n.Peers("a").Follow("b", d.events())
			cut := func(yes bool) {
				if back {
					n.SetCut("b", "a", yes)
				} else {
					n.SetCut("a", "b", yes)
				}
			}
			cut(true)
			d.call(link, "lost")
			<-time.After(time.Second)
			cut(false) // a request of the session is lost: it cannot continue
			if got := d.read(); got != "[up lost: true down false up]" {
				t.Errorf("a short cut: %s", got)
			}
			cut(true)
			<-time.After(time.Second)
			cut(false)
			d.call(link, "fine")
			if got := d.read(); got != "[fine!]" {
				t.Errorf("a cut that nothing met: %s", got)
			}
			cut(true)
			<-time.After(DeadAfter + time.Millisecond)
			if got := d.read(); got != "[down false]" {
				t.Errorf("a long cut: %s", got)
			}
			cut(false)
			if got := d.read(); got != "[up]" {
				t.Errorf("after it: %s", got)
			}
			link.Close()
			n.Wait()
		})
	}
}
