package meta

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// saving applies commands to a state with the topics t and u.
type saving struct {
	t *testing.T
	s State
}

func newSaving(t *testing.T) *saving {
	v := &saving{t: t}
	for _, name := range []string{"t", "u"} {
		v.done(NodeStarted{Node: Node{ID: "n1"}})
		v.done(CreateTopic{name, TopicConfig{}.WithDefaults(1, false), [][]NodeID{{"n1"}}})
	}
	return v
}

func (v *saving) done(c Command) {
	v.t.Helper()
	if err := v.s.Apply(v.s.Index()+1, c).Err; err != nil {
		v.t.Fatalf("%s: %v", NameOf(c), err)
	}
}

func (v *saving) save(topic, channel string, at time.Duration, floor seq.Offset) {
	v.t.Helper()
	v.done(SavePositions{Saved{
		At: int64(at), Verb: "seek", Topic: topic, Incarnation: v.s.Topic(topic).Incarnation, Channel: channel,
		Partitions: []SavedPartition{{Floor: floor}},
	}})
}

func (v *saving) floors(topic, channel string) (all []seq.Offset) {
	for _, x := range HistoryOf(&v.s).Of(v.s.Topic(topic), channel) {
		all = append(all, x.Partitions[0].Floor)
	}
	return all
}

func TestSavedPositionsAreBounded(t *testing.T) {
	v := newSaving(t)
	v.save("u", "c", 0, 99)
	for i := range 15 {
		v.save("t", "c", time.Duration(i), seq.Offset(i))
	}
	if got := v.floors("t", "c"); len(got) != maxSavedPerChannel || got[0] != 14 || got[9] != 5 {
		t.Errorf("of one channel: %v", got)
	}
	if got := v.floors("u", "c"); len(got) != 1 {
		t.Errorf("of another: %v", got)
	}
	v.save("t", "d", savedFor+10, 7)
	if got := v.floors("t", "c"); len(got) != 5 || got[4] != 10 {
		t.Errorf("after a week: %v", got)
	}
	if got := v.floors("u", "c"); got != nil {
		t.Errorf("of another after a week: %v", got)
	}
	for i := range maxSaved {
		v.save("u", "c"+strconv.Itoa(i), savedFor, 1)
	}
	if len(v.s.saved) != maxSaved || v.floors("t", "d") != nil {
		t.Errorf("%d in all, %v", len(v.s.saved), v.floors("t", "d"))
	}
}

// A restore that fails in part is repeated with the same position: its own must not make room for another.
func TestRestoredPositionStays(t *testing.T) {
	v := newSaving(t)
	restoring := func(to uint64, at time.Duration) {
		v.done(SavePositions{Saved{
			At: int64(at), Verb: "restore", Topic: "t", Incarnation: v.s.Topic("t").Incarnation, Channel: "c", Restores: to, Partitions: []SavedPartition{{Floor: 88}},
		}})
	}
	for i := range maxSavedPerChannel {
		v.save("t", "c", 0, seq.Offset(i))
	}
	oldest := HistoryOf(&v.s).Of(v.s.Topic("t"), "c")[maxSavedPerChannel-1]
	restoring(oldest.Index, 0)
	if got := v.floors("t", "c"); len(got) != maxSavedPerChannel+1 || got[0] != 88 || got[maxSavedPerChannel] != 0 {
		t.Errorf("many of the channel: %v", got)
	}
	restoring(oldest.Index, savedFor+1)
	if got := v.floors("t", "c"); len(got) != 2 || got[1] != 0 {
		t.Errorf("old: %v", got)
	}
	for i := range maxSaved - 2 {
		v.save("u", "c"+strconv.Itoa(i), savedFor, 1)
	}
	restoring(oldest.Index, savedFor+1)
	if got := v.floors("t", "c"); len(got) != 2 || got[1] != 0 || len(v.s.saved) != maxSaved {
		t.Errorf("many in all: %v, %d", got, len(v.s.saved))
	}
	v.save("t", "c", savedFor+1, 9)
	if got := v.floors("t", "c"); len(got) != 2 || got[1] != 88 {
		t.Errorf("after the restore: %v", got)
	}
}

// A channel stands for a bounded number of deleted ones, and a refused restore changes nothing.
func TestChannelIsRestoredABoundedNumberOfTimes(t *testing.T) {
	v := newSaving(t)
	v.done(CreateChannel{Topic: "t", Channel: "c"})
	deleted := func() (was Incarnation) {
		ch := v.s.Topic("t").Channels["c"]
		v.done(SavePositions{Saved{
			Verb: "delete", Topic: "t", Incarnation: v.s.Topic("t").Incarnation, Channel: "c", Version: ch.Version,
			Partitions: []SavedPartition{{Floor: 1}},
		}})
		v.done(DeleteChannel{Topic: "t", Channel: "c", Version: ch.Version})
		return ch.Version
	}
	for i := range maxFormer {
		was := deleted()
		if i%2 == 0 {
			v.done(CreateChannel{Topic: "t", Channel: "c", Version: was})
		} else { // a consumer was faster
			v.done(CreateChannel{Topic: "t", Channel: "c"})
			v.done(SavePositions{Saved{
				Verb: "restore", Topic: "t", Incarnation: v.s.Topic("t").Incarnation, Channel: "c", Version: v.s.Topic("t").Channels["c"].Version,
				Partitions: []SavedPartition{{Floor: 1}},
			}})
			v.done(AlterChannel{Topic: "t", Channel: "c", Restores: was})
			v.done(AlterChannel{Topic: "t", Channel: "c", Restores: was}) // repeated
		}
		if c := v.s.Topic("t").Channels["c"]; len(c.Former) != i+1 || c.Former[i] != was || c.FormerVersions()[i] != uint64(was) {
			t.Fatalf("restored %d times: %v, deleted was %d", i+1, c.Former, was)
		}
	}
	was := deleted()
	if err := v.s.Apply(v.s.Index()+1, CreateChannel{Topic: "t", Channel: "c", Version: was}).Err; !errors.Is(err, failure.LimitReached) || v.s.Topic("t").Channels["c"] != nil {
		t.Errorf("created: %v", err)
	}
	v.done(CreateChannel{Topic: "t", Channel: "c"})
	if err := v.s.Apply(v.s.Index()+1, AlterChannel{Topic: "t", Channel: "c", Restores: was}).Err; !errors.Is(err, failure.LimitReached) || v.s.Topic("t").Channels["c"].Former != nil {
		t.Errorf("replaced: %v", err)
	}
}

// A channel may be restored as an earlier one between the moment when its position is saved and its deletion. A
// restore of it gets the messages of the earlier one, too.
func TestDeletedChannelStandsForWhatItWasRestoredAsAtLast(t *testing.T) {
	v := newSaving(t)
	save := func() Incarnation {
		ch := v.s.Topic("t").Channels["c"]
		v.done(SavePositions{Saved{
			Verb: "delete", Topic: "t", Incarnation: v.s.Topic("t").Incarnation, Channel: "c", Version: ch.Version,
			Partitions: []SavedPartition{{Floor: 1}},
		}})
		return ch.Version
	}
	v.done(CreateChannel{Topic: "t", Channel: "c"})
	first := save()
	v.done(DeleteChannel{Topic: "t", Channel: "c", Version: first})
	v.done(CreateChannel{Topic: "t", Channel: "c"})
	second := save()
	before := v.s.Snapshot()
	v.done(AlterChannel{Topic: "t", Channel: "c", Restores: first})
	v.done(DeleteChannel{Topic: "t", Channel: "c", Version: second})
	if h := HistoryOf(before).Of(before.Topic("t"), "c"); h[0].Former != nil {
		t.Errorf("a snapshot has changed: %v", h[0].Former)
	}
	v.done(CreateChannel{Topic: "t", Channel: "c", Version: second})
	if got := v.s.Topic("t").Channels["c"].Former; !slices.Equal(got, []Incarnation{first, second}) {
		t.Errorf("stands for %v, want %d and %d", got, first, second)
	}
}

// Of two deletions at once, the second may ask for the position of a channel that a consumer has created since. Saved
// for the deleted one, it would take the place of that one's own.
func TestSavedPositionsBelongToOneVersion(t *testing.T) {
	v := newSaving(t)
	v.done(CreateChannel{Topic: "t", Channel: "c"})
	was := v.s.Topic("t").Channels["c"].Version
	save := func(floor seq.Offset) error {
		return v.s.Apply(v.s.Index()+1, SavePositions{Saved{
			Verb: "delete", Topic: "t", Incarnation: v.s.Topic("t").Incarnation, Channel: "c", Version: was, Partitions: []SavedPartition{{Floor: floor}},
		}}).Err
	}
	if err := save(5); err != nil {
		t.Fatal(err)
	}
	v.done(DeleteChannel{Topic: "t", Channel: "c", Version: was})
	if err := save(6); !errors.Is(err, failure.StaleVersion) {
		t.Errorf("saved for a deleted channel: %v", err)
	}
	v.done(CreateChannel{Topic: "t", Channel: "c"})
	if err := save(7); !errors.Is(err, failure.StaleVersion) {
		t.Errorf("saved for the channel before: %v", err)
	}
	if got := v.floors("t", "c"); len(got) != 1 || got[0] != 5 {
		t.Errorf("saved: %v", got)
	}
}

func TestSavedPositionsBelongToOneIncarnation(t *testing.T) {
	v := newSaving(t)
	v.save("t", "c", 1, 5)
	v.save("u", "c", 1, 6)
	before := v.s.Snapshot()
	old := v.s.Topic("t").Incarnation
	v.done(DeleteTopic{Name: "t"})
	v.done(CreateTopic{"t", TopicConfig{}.WithDefaults(1, false), [][]NodeID{{"n1"}}})
	if got := v.floors("t", "c"); got != nil {
		t.Errorf("of the topic from before: %v", got)
	}
	late := SavePositions{Saved{Verb: "seek", Topic: "t", Incarnation: old, Channel: "c"}}
	if err := v.s.Apply(v.s.Index()+1, late).Err; !errors.Is(err, failure.StaleIncarnation) {
		t.Errorf("late: %v", err)
	}
	index := HistoryOf(before).Of(before.Topic("u"), "c")[0].Index
	v.done(DropSaved{index})
	if err := v.s.Apply(v.s.Index()+1, DropSaved{index}).Err; !errors.Is(err, failure.SavedNotFound) {
		t.Errorf("dropped twice: %v", err)
	}
	if v.floors("u", "c") != nil || len(before.saved) != 2 {
		t.Errorf("%v, and %d before", v.floors("u", "c"), len(before.saved))
	}
}

func TestFloorOfAnUndo(t *testing.T) {
	v := newSaving(t)
	v.save("t", "c", 10, 5)
	v.save("t", "d", 20, 8)
	v.save("u", "c", 20, 1)
	topic := v.s.Topic("t")
	for since, want := range map[int64]seq.Offset{0: 5, 10: 5, 11: 8} {
		if got, some := HistoryOf(&v.s).Floor(topic, 0, since); got != want || !some {
			t.Errorf("since %d: %d %v, want %d", since, got, some, want)
		}
	}
	if _, some := HistoryOf(&v.s).Floor(topic, 0, 21); some {
		t.Error("something since 21")
	}
	if _, some := HistoryOf(&v.s).Floor(topic, 1, 0); some {
		t.Error("something in another partition")
	}
}

func TestOddSavedPositionsAreRefused(t *testing.T) {
	many := make([][2]seq.Offset, MaxSavedRanges+1)
	for i := range many {
		many[i] = [2]seq.Offset{seq.Offset(2*i + 1), seq.Offset(2*i + 2)}
	}
	for name, x := range map[string]Saved{
		"ephemeral channel":  {Verb: "seek", Topic: "t", Channel: "c#ephemeral"},
		"no verb":            {Topic: "t", Channel: "c"},
		"partitions twice":   {Verb: "seek", Topic: "t", Channel: "c", Partitions: []SavedPartition{{}, {}}},
		"an empty range":     {Verb: "seek", Topic: "t", Channel: "c", Partitions: []SavedPartition{{Finished: [][2]seq.Offset{{3, 3}}}}},
		"ranges that touch":  {Verb: "seek", Topic: "t", Channel: "c", Partitions: []SavedPartition{{Finished: [][2]seq.Offset{{1, 3}, {3, 4}}}}},
		"ranges below floor": {Verb: "seek", Topic: "t", Channel: "c", Partitions: []SavedPartition{{Floor: 4, Finished: [][2]seq.Offset{{1, 3}}}}},
		"too many former":    {Verb: "seek", Topic: "t", Channel: "c", Former: make([]Incarnation, maxFormer+1)},
		"too many ranges":    {Verb: "seek", Topic: "t", Channel: "c", Partitions: []SavedPartition{{Finished: many}}},
	} {
		if err := (SavePositions{x}).validate(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
