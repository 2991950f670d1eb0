package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// bytesOf returns n messages of one byte each.
func bytesOf(messages int) []string { return strings.Split(strings.Repeat("x", messages), "") }

func TestLongWorkIsDoneInTurns(t *testing.T) {
	const few = limit.FewMessages
	jsonOf := func(size int) string {
		const frame = `{"messages":[{"text":""}]}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	for _, tt := range []struct {
		name, path, body string
		waits            bool
	}{
		{"a message", "/pub?topic=t", "x", false},
		{"few lines", "/mpub?topic=t", strings.Repeat("x\n", few-1) + "x", false},
		{"more lines", "/mpub?topic=t", strings.Repeat("x\n", few) + "x", true},
		{"a batch of few", "/mpub?topic=t&binary=true", binaryBody(bytesOf(few)...), false},
		{"a batch of more", "/mpub?topic=t&binary=true", binaryBody(bytesOf(few + 1)...), true},
		{"a batch of more that is cut short", "/mpub?topic=t&binary=true", binaryBody(bytesOf(few + 2)...)[:5*few+13], true},
		{"little JSON", "/v1/topics/t/messages", jsonOf((64 << 10)), false},
		{"much JSON", "/v1/topics/t/messages", jsonOf((64 << 10) + 1), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := limit.NewTurns(1)
				f := newFake("t")
				s := serverOf(t, f, func(o *Options) {
					o.Turns, o.Limits = turns, web.Limits{MaxMessage: 1 << 20, MaxBody: 1 << 20}
				})
				turns.Acquire()
				done := false
				go func() {
					if w := ask(s.Handler(), http.MethodPost, tt.path, tt.body, "Content-Type", "application/json"); w.Code >= 500 {
						t.Errorf("%d: %s", w.Code, w.Body)
					}
					done = true
				}()
				synctest.Wait()
				if done == tt.waits || turns.Waiting() > 0 != tt.waits || len(f.published) > 0 == tt.waits {
					t.Errorf("it is done: %v, %d wait, %d publishes", done, turns.Waiting(), len(f.published))
				}
				turns.Give()
				synctest.Wait()
				if !done {
					t.Error("it does not end")
				}
				turns.Acquire() // it has released its turn
			})
		})
	}
}

func TestPublishReleasesItsTurn(t *testing.T) {
	for _, messages := range []int{limit.FewMessages, limit.FewMessages + 1} {
		synctest.Test(t, func(t *testing.T) {
			turns := limit.NewTurns(1)
			f := newFake("t")
			var next time.Duration // until another request has its turn
			f.receipt = func(p publish.Request) *topic.Receipt {
				began := time.Now()
				turns.Acquire()
				next = time.Since(began)
				turns.Give()
				return &topic.Receipt{Count: len(p.Messages)}
			}
			s := serverOf(t, f, func(o *Options) { o.Turns, o.Limits.MaxBody = turns, 1<<20 })
			ask(s.Handler(), http.MethodPost, "/mpub?topic=t&binary=true", binaryBody(bytesOf(messages)...))
			want := limit.PublishTurn
			if messages <= limit.FewMessages {
				want = 0
			}
			if len(f.published) != 1 || next != want {
				t.Errorf("%d messages: another has its turn %v after a publish began to wait, want %v", messages, next, want)
			}
		})
	}
}

func TestLongAnswerIsEncodedInTurns(t *testing.T) {
	const others = len("text\xff" + `{"k":"v"}`) // of the other messages of the fake
	const free = 64 << 10                        // is encoded without a turn
	for size, waits := range map[int]bool{free - others: false, free - others + 1: true} {
		synctest.Test(t, func(t *testing.T) {
			turns := limit.NewTurns(1)
			f := newFake("t")
			f.long = make([]byte, size)
			s := serverOf(t, f, func(o *Options) { o.Turns = turns })
			waiting := func(act string) {
				t.Helper()
				synctest.Wait()
				if got := turns.Waiting() > 0; got != waits {
					t.Errorf("%d bytes: a turn to %s is waited for: %v, want %v", size, act, got, waits)
				}
			}
			turns.Acquire()
			go func() {
				if w := ask(s.Handler(), http.MethodGet, "/v1/topics/t/messages", ""); w.Code != http.StatusOK {
					t.Errorf("%d: %s", w.Code, w.Body)
				}
			}()
			waiting("list")
			listed := make(chan struct{})
			go func() {
				turns.Acquire() // after the first turn, before the second
				<-listed
				turns.Give()
			}()
			synctest.Wait()
			turns.Give()
			waiting("encode")
			close(listed)
		})
	}
}

// The size of lists of all topics is determined by clients.
func TestLongAnswersAreCharged(t *testing.T) {
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprintf("topic-of-which-there-are-many-%030d", i)
	}
	for _, path := range []string{"/stats?format=json", "/stats", "/topics", "/v1/topics"} {
		synctest.Test(t, func(t *testing.T) {
			memory := limit.NewMemory(1 << 20)
			f := newFake(names...)
			for _, name := range names {
				f.stats = append(f.stats, stats.Topic{Name: name})
			}
			s := serverOf(t, f, func(o *Options) { o.Memory = memory })
			others := memory.Share(limit.Answers)
			if !others.Try(others.Most() - 1000) {
				t.Fatal("there is no room")
			}
			// The size of the first answer is not known in advance.
			for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
				if w := ask(s.Handler(), http.MethodGet, path, ""); w.Code != want {
					t.Errorf("%s: %d, not %d", path, w.Code, want)
				}
			}
			others.Close()
			if w := ask(s.Handler(), http.MethodGet, path, ""); w.Code != http.StatusOK || memory.Usage().Used != 0 {
				t.Errorf("%s: %d when there is room, and %d bytes stay charged", path, w.Code, memory.Usage().Used)
			}
		})
	}
}
