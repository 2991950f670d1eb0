package web

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
)

// made encodes an answer and returns its JSON and its release function.
func made(t *testing.T, a *Answers, l *Lengths, v any) (string, func()) {
	t.Helper()
	got, written, err := a.Make(context.Background(), l, func() (any, error) { return v, nil })
	if err != nil {
		t.Fatal(err)
	}
	body, ok := got.(JSON)
	if !ok {
		t.Fatalf("got %T", got)
	}
	return string(body), written
}

var (
	longValue  = strings.Repeat("x", 100_000)
	longLength = int64(len(longValue) + 2)
)

func TestLongAnswersAreChargedUntilTheyAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := &Answers{Memory: limit.NewMemory(2_000_000)}, &Lengths{} // answers may use half
		used := func() int64 { return a.Memory.Usage().Used }
		_, written := made(t, a, l, []string{longValue}) // the size of the first is not known in advance
		written()
		for range 10 { // short answers do not reset the estimate
			_, written := made(t, a, l, []string{})
			written()
		}
		var all []func()
		for held := 0; ; held++ {
			during := int64(0)
			_, written, err := a.Make(context.Background(), l, func() (any, error) {
				during = used() - int64(held)*(longLength+2)
				return []string{longValue}, nil
			})
			if errors.Is(err, failure.NoMemory) {
				written()
				break
			}
			if err != nil || during < longLength {
				t.Fatalf("while it is made %d bytes are charged; %v", during, err)
			}
			if got := used(); got != int64(held+1)*(longLength+2) {
				t.Fatalf("%d answers are being written, and %d bytes charged", held+1, got)
			}
			all = append(all, written)
		}
		if len(all) < 3 || len(all) > 9 {
			t.Errorf("%d answers of 100 kB were made in 1 MB", len(all))
		}
		for _, written := range all {
			written()
		}
		if used() != 0 {
			t.Errorf("all are written, and %d bytes charged", used())
		}
	})
}

func TestFailedAndTextAnswersAreCharged(t *testing.T) {
	a, l := &Answers{Memory: limit.NewMemory(4_000_000)}, &Lengths{}
	for _, v := range []any{longValue, []byte(longValue), nil, ""} {
		got, written, err := a.Make(context.Background(), l, func() (any, error) { return v, nil })
		if _, ok := got.(JSON); ok || err != nil {
			t.Errorf("%T became %T, %v", v, got, err)
		}
		written()
	}
	failed := errors.New("failed")
	if _, written, err := a.Make(context.Background(), l, func() (any, error) { return longValue, failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	} else {
		written()
	}
	if used := a.Memory.Usage().Used; used != 0 || l.most.Load() <= shortAnswer {
		t.Errorf("%d bytes are charged, %d expected", used, l.most.Load())
	}
	if got, _ := made(t, nil, &Lengths{}, []int{1}); got != "[1]" {
		t.Errorf("without limits: %s", got)
	}
}

// An answer larger than the share of all answers is encoded when no other one is.
func TestAnswerOverBudgetIsSent(t *testing.T) {
	a, l := &Answers{Memory: limit.NewMemory(200_000)}, &Lengths{}
	for range 3 {
		_, written := made(t, a, l, []string{longValue, longValue, longValue})
		written()
	}
}

func TestLongAnswersAreEncodedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := &Answers{Turns: limit.NewTurns(1)}, &Lengths{}
		_, written := made(t, a, l, []string{longValue})
		written()
		began := time.Now()
		other := a.Turns.AcquireFor(time.Second)
		_, written = made(t, a, l, []string{longValue})
		written()
		if time.Since(began) != time.Second {
			t.Errorf("it waited %v for its turn", time.Since(began))
		}
		other()
		_, written = made(t, a, &Lengths{}, []string{}) // a short one needs none
		written()
	})
}

// TestLongListsAreBuiltOneAtATime: with a rest in between while others wait, and so many wait at most. Changes do not wait.
func TestLongListsAreBuiltOneAtATime(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reads bool
		takes time.Duration
		value any
		paced bool
	}{
		{"long", true, 20 * time.Millisecond, []string{longValue}, true},
		{"slow", true, 20 * time.Millisecond, "short", true},
		{"quick and short", true, time.Millisecond, "short", false},
		{"a change", false, 20 * time.Millisecond, []string{longValue}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, l := NewAnswers(nil, nil), &Lengths{Reads: tt.reads}
				running, most, refused := 0, 0, 0
				var mu sync.Mutex
				build := func() {
					_, written, err := a.Make(context.Background(), l, func() (any, error) {
						mu.Lock()
						running++
						most = max(most, running)
						mu.Unlock()
						time.Sleep(tt.takes)
						mu.Lock()
						running--
						mu.Unlock()
						return tt.value, nil
					})
					written()
					if err != nil {
						mu.Lock()
						refused++
						mu.Unlock()
					}
				}
				build()
				began := time.Now()
				var all sync.WaitGroup
				for range 11 {
					all.Go(build)
				}
				all.Wait()
				took := time.Since(began)
				if want := 21 * tt.takes; tt.paced && (most != 1 || took != want || refused != 0) {
					t.Errorf("%d at a time, %v, want %v, %d refused", most, took, want, refused)
				}
				if !tt.paced && took != tt.takes {
					t.Errorf("took %v", took)
				}
				for range 2 * maxLists {
					all.Go(build)
				}
				all.Wait()
				if want := maxLists - 1; (refused == want) != tt.paced || refused > want {
					t.Errorf("%d are refused", refused)
				}
				time.Sleep(time.Second) // the last rest
			})
		})
	}
}

// TestListThatWaitsDelaysNoOtherForLong: it may wait for a node that does not answer.
func TestListThatWaitsDelaysNoOtherForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := NewAnswers(nil, nil), &Lengths{Reads: true}
		build := func(takes time.Duration) {
			_, written, err := a.Make(context.Background(), l, func() (any, error) { time.Sleep(takes); return "short", nil })
			if written(); err != nil {
				t.Error(err)
			}
		}
		build(time.Second)
		go build(10 * time.Second)
		synctest.Wait()
		began := time.Now()
		build(0)
		if took := time.Since(began); took != listTurn {
			t.Errorf("it waited for %v", took)
		}
		time.Sleep(time.Minute)
	})
}
