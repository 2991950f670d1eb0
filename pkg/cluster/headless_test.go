package cluster

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/meta"
)

// A node that has lost its majority logs that once, with the nodes that do not respond, and logs
// when there is a leader again. A normal election is not logged.
func TestMissingLeaderIsReportedOnce(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		told := &logtest.Journal{}
		w.options = func(_ string, o *Options) { o.Logger = slog.New(slog.NewTextHandler(told, nil)) }
		w.start(three...)
		w.formed(3, 3)
		lines := func(text string) int { return strings.Count(told.String(), text) }
		const without, again = "no metadata leader", "metadata leader elected"
		leader, _ := w.node("n1").Store().Leader()
		_ = w.kill(string(leader))
		w.sleep(20 * time.Second)
		w.start(string(leader))
		w.formed(3, 3)
		if lines(without) > 0 || lines(again) > 0 {
			t.Errorf("a majority was there all the time:\n%s", told)
		}
		_, _ = w.kill("n2"), w.kill("n3")
		w.sleep(2 * time.Minute)
		if lines(without) != 1 || lines("[n2 n3]") != 1 || lines("lection timeout") > 0 {
			t.Errorf("two minutes without a majority:\n%s", told)
		}
		w.start("n2")
		w.sleep(20 * time.Second)
		if lines(without) != 1 || lines(again) != 1 {
			t.Errorf("with a majority again:\n%s", told)
		}
		_ = w.kill("n2")
		w.sleep(time.Minute)
		if lines(without) != 2 {
			t.Errorf("without it for the second time:\n%s", told)
		}
	})
}

// A node of a cluster that forms does not warn about two voters because the third one joins a moment
// later; a node of a cluster of two does.
func TestTwoVotersAreReportedIfTheyRemainTwo(t *testing.T) {
	for want, nodes := range map[int][]string{0: three, 2: {"n1", "n2"}} {
		inWorld(t, nodes, len(nodes), func(t *testing.T, w *world) {
			told := &logtest.Journal{}
			w.options = func(_ string, o *Options) { o.Logger = slog.New(slog.NewTextHandler(told, nil)) }
			w.start(nodes...)
			w.formed(len(nodes), len(nodes))
			w.sleep(2 * twoVotersAfter)
			if got := strings.Count(told.String(), "a cluster of two nodes"); got != want {
				t.Errorf("%d nodes log it %d times, want %d:\n%s", len(nodes), got, want, told)
			}
		})
	}
}

// fakeLeadership is a leadership that the test changes.
type fakeLeadership struct {
	id    atomic.Pointer[meta.NodeID] // nil if none
	moved signal.Signal
}

func (f *fakeLeadership) Leader() (meta.NodeID, bool) {
	if id := f.id.Load(); id != nil {
		return *id, true
	}
	return "", false
}

func (f *fakeLeadership) LeaderChanged() <-chan struct{} { return f.moved.Wait() }

func (f *fakeLeadership) set(id *meta.NodeID) {
	f.id.Store(id)
	f.moved.Fire()
}

// A normal election is not logged.
func TestElectionIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		told, f, n1 := &logtest.Journal{}, &fakeLeadership{}, meta.NodeID("n1")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			tellHeadless(ctx, slog.New(slog.NewTextHandler(told, nil)), f, func() []string { return nil })
		}()
		for range 5 {
			f.set(nil)
			time.Sleep(headlessFor / 2)
			f.moved.Fire() // there is still none
			time.Sleep(headlessFor/2 - time.Millisecond)
			f.set(&n1)
			time.Sleep(time.Hour)
		}
		if told.String() != "" {
			t.Errorf("told of elections:\n%s", told)
		}
		f.set(nil)
		time.Sleep(headlessFor + time.Millisecond)
		if n := strings.Count(told.String(), "\n"); n != 1 {
			t.Errorf("%d lines:\n%s", n, told)
		}
		time.Sleep(time.Hour)
		f.set(&n1)
		synctest.Wait()
		if n := strings.Count(told.String(), "\n"); n != 2 || !strings.Contains(told.String(), "leader=n1 after=1h0m3.001s") {
			t.Errorf("%d lines:\n%s", n, told)
		}
		f.set(nil)
		stop()
		<-ended
	})
}
