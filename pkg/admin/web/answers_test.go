package web

import (
	"context"
	"errors"
	"strings"
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
