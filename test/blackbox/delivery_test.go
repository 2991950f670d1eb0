package blackbox

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// late is the tolerated delay of a timed event on a very busy machine. Tests in virtual time check
// that it is normally at most 100 ms.
const late = 30 * time.Second

// near checks that an event happened not before its time and soon after it. The time is measured
// from before its cause.
func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want-2*time.Millisecond || // the clocks are read at different moments
		got > want+late {
		t.Errorf("%s after %v, want %v", what, got, want)
	}
}

func TestTimesOfAMessage(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	t.Run("timeout", func(t *testing.T) {
		w := n.consumer("timeout", "c", 1, `{"msg_timeout":3000}`)
		begin := time.Now()
		n.post("/pub?topic=timeout", "x")
		first := w.message()
		again := w.message()
		near(t, "delivered again", time.Since(begin), 3*time.Second)
		if again.id != first.id || again.attempts != 2 || again.timestamp != first.timestamp {
			t.Errorf("%+v after %+v", again, first)
		}
		w.fin(again)
		w.fin(again)
		w.fails("E_FIN_FAILED")
		if c := n.channel("timeout", "c"); c.TimedOut != 1 || c.InFlight != 0 || c.Depth != 0 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("touch", func(t *testing.T) {
		w := n.consumer("touch", "c", 1, `{"msg_timeout":5000}`)
		begin := time.Now()
		n.post("/pub?topic=touch", "x")
		m := w.message()
		for range 4 {
			w.silent(1500 * time.Millisecond)
			w.send("TOUCH " + m.id + "\n")
		}
		w.message()
		near(t, "delivered again", time.Since(begin), 11*time.Second)
	})
	t.Run("requeue", func(t *testing.T) {
		w := n.consumer("requeue", "c", 1, "{}")
		n.post("/pub?topic=requeue", "x")
		begin := time.Now()
		w.req(w.message(), 700*time.Millisecond)
		m := w.message()
		near(t, "delivered again", time.Since(begin), 700*time.Millisecond)
		begin = time.Now()
		w.req(m, 0)
		m = w.message()
		near(t, "delivered again", time.Since(begin), 0)
		if m.attempts != 3 {
			t.Errorf("%+v", m)
		}
		w.fin(m)
	})
	t.Run("deferral", func(t *testing.T) {
		w := n.consumer("deferral", "c", 1, "{}")
		begin := time.Now()
		w.send("DPUB deferral 500\n" + sized("x"))
		w.ok()
		w.fin(w.message())
		near(t, "delivered", time.Since(begin), 500*time.Millisecond)
	})
	t.Run("disconnect", func(t *testing.T) {
		gone := n.consumer("leave", "c", 3, "{}")
		n.post("/mpub?topic=leave", "1\n2\n3")
		for range 3 {
			gone.message()
		}
		w := n.consumer("leave", "c", 3, "{}")
		w.silent(50 * time.Millisecond)
		_ = gone.Close()
		begin := time.Now()
		var got []string
		for range 3 {
			m := w.message()
			got = append(got, m.body)
			w.fin(m)
		}
		near(t, "handed to another", time.Since(begin), 0)
		if slices.Sort(got); fmt.Sprint(got) != "[1 2 3]" {
			t.Errorf("%q", got)
		}
	})
	t.Run("many consumers at one time", func(t *testing.T) {
		const consumers = 8
		var all []*wire
		for range consumers {
			all = append(all, n.consumer("crowd", "c", 1, "{}"))
		}
		all[0].silent(100 * time.Millisecond)
		begin := time.Now()
		for range consumers {
			all[0].send("DPUB crowd 500\n" + sized("x"))
			all[0].ok()
		}
		for _, w := range all {
			w.message() // each consumer has one message, none has two
			near(t, "delivered", time.Since(begin), 500*time.Millisecond)
		}
	})
}

// Deferred, requeued, paused and in-flight messages keep their state across a restart, however the
// broker ended.
func TestRestarts(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(end.String(), func(t *testing.T) {
			t.Parallel()
			n := startNode(t)
			p := n.dial()
			begin := time.Now()
			const delay = 10 * time.Second // by then, the node is to be down
			p.send("DPUB later 10000\n" + sized("deferred"))
			p.ok()
			w := n.consumer("later", "c", 10, "{}")
			n.post("/pub?topic=later", "flying")
			n.post("/pub?topic=later", "finished")
			for range 2 {
				if m := w.message(); m.body == "finished" {
					w.fin(m)
				}
			}
			eventually(t, "finished", func() bool { return n.channel("later", "c").InFlight == 1 })
			n.post("/pub?topic=still", "x")
			n.post("/channel/create?topic=still&channel=c", "")
			n.post("/channel/pause?topic=still&channel=c", "")
			n.post("/topic/create?topic=quiet", "")
			n.post("/channel/create?topic=quiet&channel=c", "")
			n.post("/topic/pause?topic=quiet", "")
			n.post("/pub?topic=quiet", "x")
			n.post("/topic/create?topic=brief%23ephemeral", "")
			n.post("/channel/create?topic=still&channel=brief%23ephemeral", "")
			n.post("/topic/create?topic=idle", "")
			n.post("/channel/create?topic=idle&channel=c", "")
			p.send("DPUB idle 600000\n" + sized("much later"))
			p.ok()
			n.post("/pub?topic=idle", "now")
			idle := channelStats{Name: "c", Depth: 1, Deferred: 1}
			if c := n.channel("idle", "c"); c != idle {
				t.Errorf("deferred message: %+v", c)
			}
			eventually(t, "positions on disk", func() bool { return time.Since(begin) > 1500*time.Millisecond })

			n.restart(func() { n.signal(end) })
			if c := n.channel("idle", "c"); c != idle {
				t.Errorf("deferred message after the restart: %+v", c)
			}
			w = n.consumer("later", "c", 10, "{}")
			var got []string
			for range 2 { // flying first, unless the restart took so long that both were due
				m := w.message()
				if got = append(got, m.body); m.body == "deferred" {
					near(t, "delivered", time.Since(begin), delay)
					if m.attempts != 1 {
						t.Errorf("%+v", m)
					}
				}
				w.fin(m)
			}
			if slices.Sort(got); !slices.Equal(got, []string{"deferred", "flying"}) {
				t.Errorf("%q", got)
			}
			if c := n.channel("still", "c"); !c.Paused || c.Depth != 1 {
				t.Errorf("paused channel: %+v", c)
			}
			if q, _ := n.topic("quiet"); !q.Paused || q.Depth != 1 {
				t.Errorf("paused topic: %+v", q)
			}
			quiet := n.consumer("quiet", "c", 1, "{}")
			still := n.consumer("still", "c", 1, "{}")
			still.silent(100 * time.Millisecond)
			quiet.silent(100 * time.Millisecond)
			n.post("/topic/unpause?topic=quiet", "")
			n.post("/channel/unpause?topic=still&channel=c", "")
			quiet.fin(quiet.message())
			still.fin(still.message())
		})
	}
}

func TestChannelsAndTheirBacklog(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--max-channel-consumers", "2")
	n.post("/mpub?topic=t", "1\n2\n3")
	if s, _ := n.topic("t"); s.Depth != 3 {
		t.Errorf("%+v", s)
	}
	n.post("/channel/create?topic=t&channel=first", "")
	n.post("/channel/create?topic=t&channel=second", "")
	if c := n.channel("t", "first"); c.Depth != 3 {
		t.Errorf("first: %+v", c)
	}
	if c := n.channel("t", "second"); c.Depth != 0 {
		t.Errorf("second: %+v", c)
	}
	n.post("/pub?topic=t", "4")
	if a, b := n.channel("t", "first"), n.channel("t", "second"); a.Depth != 4 || b.Depth != 1 {
		t.Errorf("%+v %+v", a, b)
	}
	w := n.consumer("t", "first", 2, "{}")
	a := w.message()
	w.message()
	n.post("/channel/empty?topic=t&channel=first", "")
	w.fin(a)
	w.fails("E_FIN_FAILED")
	if c := n.channel("t", "first"); c.Depth != 0 || c.InFlight != 0 {
		t.Errorf("%+v", c)
	}
	n.post("/pub?topic=t", "5")
	if m := w.message(); m.body != "5" {
		t.Errorf("%+v", m)
	}

	n.consumer("t", "first", 0, "{}")
	third := n.dial()
	third.send("SUB t first\n")
	third.fails("E_SUB_FAILED SUB failed consumers for t:first exceeds limit of 2")
	third.closed()

	n.post("/channel/delete?topic=t&channel=first", "")
	w.closed()
	n.want(404, "POST", "/channel/delete?topic=t&channel=none", "")
	n.post("/topic/delete?topic=t", "")
	n.want(404, "POST", "/topic/pause?topic=t", "")

	// ephemeral: the channel is deleted with its last consumer, the topic with its last channel
	e := n.consumer("e#ephemeral", "c#ephemeral", 1, "{}")
	if _, ok := n.topic("e#ephemeral"); !ok {
		t.Error("no ephemeral topic")
	}
	_ = e.Close()
	eventually(t, "ephemeral topic gone", func() bool { _, ok := n.topic("e#ephemeral"); return !ok })
}

func TestSampling(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.consumer("s", "c", 2500, `{"sample_rate":50}`)
	p := n.dial()
	bodies := slices.Repeat([]string{"x"}, 1000)
	p.send(mpub("s", bodies...))
	p.ok()
	got := 0
	for {
		m, ok := w.messageWithin(2 * time.Second)
		if !ok {
			break
		}
		w.fin(m)
		got++
	}
	if got < 400 || got > 600 {
		t.Errorf("%d of 1000 messages at a rate of 50", got)
	}
	eventually(t, "the rest finished", func() bool {
		c := n.channel("s", "c")
		return c.Depth == 0 && c.InFlight == 0
	})
}
