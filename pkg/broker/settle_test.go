package broker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/directory"
)

func TestChannelIsReadyOnceEveryLeaderKnowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "a")
		l.crash("n1") // and no node has noticed
		if err := l.at("n2").Directory.CreateChannel(t.Context(), "t", "c", false); !errors.Is(err, directory.ErrUnconfirmed) {
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
