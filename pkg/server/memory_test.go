package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/buffer"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/nsq"
)

const testMemory = 8 << 20

// pressed serves one end of a pipe, in a bubble, from a memory budget that has nothing left for
// large bodies.
func pressed(t *testing.T) (*limit.Memory, *fakeBroker, *wire) {
	t.Helper()
	m := limit.NewMemory(testMemory)
	others := m.Share(limit.Bodies)
	if !others.Try(testMemory / 4 * 3) {
		t.Fatal("the budget is not empty")
	}
	_, b, conn := pipeServer(t, Options{Memory: m})
	w := &wire{t, conn}
	w.send(nsq.Magic)
	return m, b, w
}

func TestBodyWithoutMemoryIsRefusedAndNextAccepted(t *testing.T) {
	big := strings.Repeat("x", 100<<10)
	batch := make([]string, 1000)
	for i := range batch {
		batch[i] = big[:1000]
	}
	for _, tt := range []struct{ name, send, want string }{
		{"PUB", "PUB t\n" + sized(big), "E_PUB_FAILED PUB failed, refused: "},
		{"DPUB", "DPUB t 5\n" + sized(big), "E_DPUB_FAILED DPUB failed, refused: "},
		{"MPUB", mpub("t", batch...), "E_MPUB_FAILED MPUB failed, refused: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _, w := pressed(t)
				began := time.Now()
				go w.send(tt.send + "PUB t\n" + sized("small"))
				w.expect(tt.want+failure.NoMemory.Error(), "OK")
				if waited := time.Since(began); waited != limit.MemoryWait {
					t.Errorf("the sender waited for %v", waited)
				}
				if u := m.Usage(); u.Refused != 1 {
					t.Errorf("%+v", u)
				}
			})
		})
	}
}

// Listing the messages of an MPUB takes many times their size.
func TestEachMessageOfMPUBIsCharged(t *testing.T) {
	const messages = 20 << 10 // of one byte: a body of 100 KiB and a list of more than a MiB
	ones := make([]string, messages)
	for i := range ones {
		ones[i] = "x"
	}
	t.Run("when there is memory", func(t *testing.T) {
		m := limit.NewMemory(testMemory)
		h := newHarness(t, Options{Memory: m})
		var seen atomic.Int64
		h.broker.onPublish = func() { seen.Store(m.Usage().Uses[limit.Bodies]) }
		w := h.dial(t)
		w.send(mpub("t", ones...))
		w.expect("OK")
		held := seen.Load()
		least := int64(messages * (5 + messageBytes))
		most := int64(messages*messageBytes + buffer.Cap(messages*5+4) + 64<<10) // a list that had grown would have spare capacity
		if held < least || held > most {
			t.Errorf("%d bytes are held for %d messages, want %d to %d", held, messages, least, most)
		}
		eventually(t, "all is given back but the buffer", func() bool { return m.Usage().Uses[limit.Bodies] <= 64<<10 })
		_ = w.Close()
		eventually(t, "all is given back", func() bool { return m.Usage().Used == 0 })
	})
	t.Run("when there is none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := limit.NewMemory(testMemory)
			_, _, conn := pipeServer(t, Options{Memory: m})
			w := &wire{t, conn}
			others := m.Share(limit.Bodies)
			if !others.Try(testMemory/4*3 - 512<<10) { // there is memory for the body, not for the list
				t.Fatal("the budget is not empty")
			}
			go w.send(nsq.Magic + mpub("t", ones...) + "PUB t\n" + sized("small"))
			w.expect("E_MPUB_FAILED MPUB failed, refused: "+failure.NoMemory.Error(), "OK")
		})
	})
}

func TestBodyHasADeadline(t *testing.T) {
	for _, tt := range []struct {
		name, identify string
		end            time.Duration
	}{
		{"without heartbeats", `{"heartbeat_interval":-1}`, time.Minute},
		{"with short ones", `{"heartbeat_interval":1000}`, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, _, conn := pipeServer(t, Options{})
				start := time.Now()
				go func() {
					body := sized(strings.Repeat("x", 1<<20))
					_, _ = io.WriteString(conn, nsq.Magic+"IDENTIFY\n"+sized(tt.identify)+"PUB t\n"+body[:len(body)-1])
				}()
				frameTimes(conn, start, func(time.Duration, string) {})
				if took := time.Since(start); took != tt.end {
					t.Errorf("it ended after %v", took)
				}
				synctest.Wait()
				if srv.Stats().Ended[EndTimeout] != 1 {
					t.Error("the end is not counted as a timeout")
				}
			})
		})
	}
}

// dribble sends a body a few bytes at a time, and never completes it.
func dribble(conn net.Conn, pause time.Duration) {
	_, err := io.WriteString(conn, nsq.Magic+"PUB t\n"+sized(strings.Repeat("x", 1<<20))[:64<<10])
	for err == nil {
		time.Sleep(pause) // virtual time
		_, err = io.WriteString(conn, "xxxx")
	}
}

func TestSlowBodyEndsEarlierWhileOthersWaitForMemory(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		t.Run(fmt.Sprintf("others wait %v", wanted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := limit.NewMemory(testMemory)
				srv, _, conn := pipeServer(t, Options{Memory: m})
				start := time.Now()
				go dribble(conn, time.Second)
				synctest.Wait()
				done := make(chan struct{})
				if wanted {
					others := m.Share(limit.Bodies)
					if !others.Try(testMemory/4*3 - 256<<10) {
						t.Fatal("the budget is not empty")
					}
					go func() {
						for s := m.Share(limit.Bodies); ; s.Close() {
							select {
							case <-done:
								return
							default:
								_ = s.Reserve(t.Context(), 1<<20)
							}
						}
					}()
				}
				frameTimes(conn, start, func(time.Duration, string) {})
				took := time.Since(start)
				if early := took < 10*time.Second; early != wanted {
					t.Errorf("it ended after %v", took)
				}
				close(done)
				synctest.Wait()
				if srv.Stats().Ended[EndTimeout] != 1 {
					t.Error("the end is not counted as a timeout")
				}
				time.Sleep(2 * limit.MemoryWait) // virtual time: the waiting connection ends
			})
		})
	}
}

func TestConnectionsAndUpgradesAreCharged(t *testing.T) {
	m := limit.NewMemory(4 * connectionCost)
	h := newHarness(t, Options{Memory: m})
	first, second := h.dial(t), h.dial(t)
	for _, w := range []*wire{first, second} {
		w.send("PUB t\n" + sized("x"))
		w.expect("OK")
	}
	h.dialRaw(t).expect("E_INVALID "+failure.NoMemory.Error(), "EOF")
	first.send("IDENTIFY\n" + sized(`{"feature_negotiation":true,"deflate":true}`))
	first.expect("E_IDENTIFY_FAILED IDENTIFY failed "+failure.NoMemory.Error(), "EOF")
	eventually(t, "the first has given back", func() bool { return m.Usage().Used == connectionCost })
	third := h.dial(t)
	third.send("PUB t\n" + sized("x"))
	third.expect("OK")
	_ = second.Close()
	_ = third.Close()
	eventually(t, "all have given back", func() bool { return m.Usage().Used == 0 })
}

func TestUpgradeMemoryIsReleased(t *testing.T) {
	for _, ask := range []string{`"deflate":true`, `"snappy":true`} {
		m := limit.NewMemory(testMemory)
		h := newHarness(t, Options{Memory: m})
		w := h.dial(t)
		w.send("IDENTIFY\n" + sized(`{"feature_negotiation":true,`+ask+`}`))
		w.frame()
		if u := m.Usage(); u.Uses[limit.Connections] <= connectionCost {
			t.Errorf("%s is not charged: %+v", ask, u)
		}
		_ = w.Close()
		eventually(t, "it is given back", func() bool { return m.Usage().Used == 0 })
	}
}

func TestIdentifyBodiesAreBounded(t *testing.T) {
	h := newHarness(t, Options{})
	text := strings.Repeat("x", 256)
	for _, field := range []string{"client_id", "hostname", "short_id", "long_id", "user_agent", "topology_region", "topology_zone"} {
		w := h.dial(t)
		w.send("IDENTIFY\n" + sized(fmt.Sprintf(`{%q:%q}`, field, text)))
		w.expect("OK")
		w = h.dial(t)
		w.send("IDENTIFY\n" + sized(fmt.Sprintf(`{%q:%q}`, field, text+"x")))
		w.expect("E_BAD_BODY IDENTIFY "+field+" has 257 bytes, more than 256", "EOF")
	}
	for _, verb := range []string{"IDENTIFY", "AUTH"} {
		w := h.dial(t)
		w.send(verb + "\n" + sized(strings.Repeat(" ", maxIntroduction+1))[:4])
		w.expect("E_BAD_BODY "+verb+" body too big 65537 > 65536", "EOF")
	}
}

// consumer subscribes over one end of a pipe, in a bubble.
func consumer(t *testing.T, conn net.Conn) *wire {
	t.Helper()
	w := &wire{t, conn}
	go w.send(nsq.Magic + "SUB t c\nRDY 10\n")
	w.expect("OK")
	synctest.Wait()
	return w
}

func TestDeliveredMessagesAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := limit.NewMemory(32 << 20)
		_, b, conn := pipeServer(t, Options{Memory: m})
		w := consumer(t, conn)
		for size, want := range map[int]int64{1000: 0, 20 << 10: 16 << 10, 1 << 20: 2<<20 - 16<<10} {
			b.deliver("t", size)
			synctest.Wait() // the consumer does not read
			if got := m.Usage().Uses[limit.Deliveries]; got != want {
				t.Errorf("a message of %d bytes costs %d, want %d", size, got, want)
			}
			w.frame()
			synctest.Wait()
			if got := m.Usage().Uses[limit.Deliveries]; got != 0 {
				t.Errorf("%d bytes are charged for a message of %d that was read", got, size)
			}
		}
	})
}

func TestLargeMessageWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 16 << 20
		m := limit.NewMemory(budget)
		_, b, conn := pipeServer(t, Options{Memory: m})
		w := consumer(t, conn)
		others := m.Share(limit.Deliveries)
		if !others.Try(budget / 2) {
			t.Fatal("the budget is not empty")
		}
		b.deliver("t", 60<<10) // a message of ordinary size
		w.frame()
		b.deliver("t", 100<<10)
		time.Sleep(10*limit.MemoryWait + limit.MemoryWait/2) // virtual time
		synctest.Wait()
		if waits := m.Usage().Waiting; waits != 1 {
			t.Fatalf("%d wait for memory", waits)
		}
		b.mu.Lock()
		if b.vain != 1 {
			t.Errorf("a message was read %d times while memory was short", b.vain)
		}
		b.mu.Unlock()
		began := time.Now()
		others.Close()
		w.frame()
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it went out %v after there was memory", waited)
		}
		if !others.Try(budget/2 - 1<<20) {
			t.Error("memory is held for a message that was read")
		}
		b.deliver("t", budget) // more than the limit
		time.Sleep(limit.MemoryWait / 2)
		others.Close()
		w.frame()
	})
}

func TestConsumerDisconnectsWhileWaitingForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := limit.NewMemory(16 << 20)
		srv, b, conn := pipeServer(t, Options{Memory: m})
		consumer(t, conn)
		others := m.Share(limit.Deliveries)
		if !others.Try(8 << 20) {
			t.Fatal("the budget is not empty")
		}
		b.deliver("t", 1<<20)
		synctest.Wait()
		_ = conn.Close()
		time.Sleep(2 * limit.MemoryWait) // virtual time
		synctest.Wait()
		if open := srv.Stats().Open; open != 0 {
			t.Errorf("%d connections are open", open)
		}
		if u := m.Usage(); u.Used != 8<<20 {
			t.Errorf("%+v", u)
		}
	})
}
