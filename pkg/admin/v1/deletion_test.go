package v1

import (
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

// The answer to a deletion is about the channel that was deleted, not about one of its name before.
func TestSavedAtDeletionIsOfTheDeletedChannel(t *testing.T) {
	topic := func(name string, channels ...string) *meta.Topic {
		x := &meta.Topic{Name: name, Partitions: make([]meta.Partition, 3), Channels: map[string]*meta.Channel{}}
		for _, c := range channels {
			x.Channels[c] = &meta.Channel{Version: 7}
		}
		return x
	}
	in := func(verb string, version meta.Incarnation, partitions ...int) *meta.Saved {
		v := &meta.Saved{Verb: verb, Version: version}
		for _, i := range partitions {
			v.Partitions = append(v.Partitions, meta.SavedPartition{Partition: i})
		}
		return v
	}
	for _, test := range []struct {
		name    string
		topic   *meta.Topic
		channel string
		saved   []*meta.Saved
		want    int // index of the position; -1: none
		unsaved []int
	}{
		{"all", topic("t", "c"), "c", []*meta.Saved{in("seek", 7, 0), in(operate.SavedDelete, 7, 0, 1, 2)}, 1, nil},
		{"one is missing", topic("t", "c"), "c", []*meta.Saved{in(operate.SavedDelete, 7, 0, 2)}, 0, []int{1}},
		{"of an earlier channel", topic("t", "c"), "c", []*meta.Saved{in(operate.SavedDelete, 6, 0, 1, 2)}, -1, []int{0, 1, 2}},
		{"none", topic("t", "c"), "c", nil, -1, []int{0, 1, 2}},
		{"no channel", topic("t"), "c", nil, -1, nil},
		{"ephemeral channel", topic("t", "c#ephemeral"), "c#ephemeral", nil, -1, nil},
		{"ephemeral topic", topic("t#ephemeral", "c"), "c", nil, -1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, unsaved := savedAtDeletion(test.topic, test.channel, test.saved)
			if !slices.Equal(unsaved, test.unsaved) || (v == nil) != (test.want < 0) || v != nil && v != test.saved[test.want] {
				t.Errorf("%+v without %v", v, unsaved)
			}
		})
	}
}
