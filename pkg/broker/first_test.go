package broker

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/topic"
)

// A leader may apply together that the last channel was deleted and that another was created.
func TestFirstChannelGetsWhatNoChannelReceived(t *testing.T) {
	l := newLan(t, nil, "n1")
	l.create("t", "n1")
	l.leader("t", 0)
	if _, err := l.at("n1").Host.Lookup("t").Led(0).Part.AddChannel("deleted", 1, topic.ChannelOptions{}); err != nil {
		t.Fatal(err)
	}
	l.mustPut("t", 0, "a")
	if err := l.at("n1").Directory.CreateChannel(t.Context(), "t", "c", false); err != nil {
		t.Fatal(err)
	}
	if got := l.subscribe("t", "c", 0).take(1); got != "a" {
		t.Errorf("got %q", got)
	}
}
