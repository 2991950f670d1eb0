package broker

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestChannelIsReadyOnceEveryLeaderKnowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "a")
		l.crash("n1") // and no node has noticed
		if err := l.at("n2").Directory.CreateChannel(t.Context(), "t", "c", false); !errors.Is(err, failure.ChannelUnconfirmed) {
			t.Fatalf("the leader may go on acknowledging what the channel skips: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- l.at("n2").Directory.CreateChannel(t.Context(), "t", "c", false) }()
		l.failOver("n1")
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("another leads: %v", err)
			}
		case <-time.After(2 * directory.ConvergeTimeout):
			t.Error("the creation does not end")
		}
		if got := l.subscribe("t", "c", 0).take(1); got != "a" {
			t.Errorf("got %q", got)
		}
	})
}

// A node that was restarted leads, according to the metadata, before it serves.
func TestChannelWaitsForLeaderThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2")
		l.create("t", "n1", "n2")
		l.inSync("t", 0, 2)
		away := &l.hosts["n1"].away
		away.Store(true)
		err := l.at("n2").Directory.CreateChannel(t.Context(), "t", "c", false)
		if k := failure.Of(err); k != failure.ChannelUnconfirmed || k.Code.Status() != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "node n1: node is not serving") {
			t.Errorf("a leader that does not start: %v, %v", err, k)
		}
		time.AfterFunc(directory.ConvergeTimeout/2, func() { away.Store(false) })
		if err := l.at("n2").Directory.CreateChannel(t.Context(), "t", "d", false); err != nil {
			t.Errorf("a leader that starts: %v", err)
		}
	})
}

// The leader that creates a channel waits for its followers, and another one leads meanwhile.
func TestChannelIsCreatedThoughLeadershipMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2")
		l.create("t", "n1", "n2")
		l.inSync("t", 0, 2)
		l.mustPut("t", 0, "a")
		l.crash("n2")
		done := make(chan error, 1)
		go func() { done <- l.at("n1").Directory.CreateChannel(t.Context(), "t", "c", false) }()
		time.Sleep(directory.ConvergeTimeout / 6)
		l.elect("t", 0, "n2")
		time.Sleep(directory.ConvergeTimeout / 6)
		l.start("n2")
		if err := <-done; err != nil {
			t.Errorf("another leads: %v", err)
		}
		if got := l.subscribe("t", "c", 0).take(1); got != "a" {
			t.Errorf("got %q", got)
		}
	})
}

// A leader that returned a replaced channel to the position of the deleted one before it knows that messages
// for that one are for it would finish them.
func TestReplacedChannelIsKnownToEveryLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2")
		l.create("t", "n1", "n2")
		l.inSync("t", 0, 2)
		d := l.at("n2").Directory
		err := d.CreateChannel(t.Context(), "t", "c", false)
		if err == nil {
			err = l.at("n2").Contents.DeleteChannel(t.Context(), "t", "c")
		}
		if err == nil {
			err = d.CreateChannel(t.Context(), "t", "c", false)
		}
		if err != nil {
			t.Fatal(err)
		}
		v := meta.HistoryOf(l.store.View()).Of(l.store.Topic("t"), "c")[0]
		change := meta.AlterChannel{Topic: "t", Channel: "c", Restores: v.Version}
		l.hosts["n1"].away.Store(true)
		if err := d.Change(t.Context(), "t", change); !errors.Is(err, failure.ChannelUnconfirmed) {
			t.Errorf("its leader does not answer: %v", err)
		}
		l.hosts["n1"].away.Store(false)
		if err := d.Change(t.Context(), "t", change); err != nil {
			t.Error(err)
		}
	})
}
