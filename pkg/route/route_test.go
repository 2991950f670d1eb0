package route

import (
	"errors"
	"fmt"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

func message(body, key, dedup string) topic.Message {
	m := topic.Message{Body: []byte(body)}
	if key != "" {
		m.Key = []byte(key)
	}
	if dedup != "" {
		m.Dedup = []byte(dedup)
	}
	return m
}

// TestKeysChoosePartitions pins the hash: a key that went elsewhere would break the order of what
// is published before and after an upgrade.
func TestKeysChoosePartitions(t *testing.T) {
	got := ""
	for _, key := range []string{"", "a", "b", "order-7", "order-8"} {
		got += fmt.Sprint(PartitionOfKey([]byte(key), 5), " ")
	}
	if want := "1 0 2 0 3 "; got != want {
		t.Errorf("partitions %q, want %q", got, want)
	}
}

func TestSplit(t *testing.T) {
	rnd := testrand.New(t)
	for range 2000 {
		tp := Topic{Partitions: 2 + rnd.IntN(6)}
		var route []byte
		if rnd.IntN(3) == 0 {
			route = []byte("route")
		}
		var all []topic.Message
		want := make([]int, 1+rnd.IntN(6))
		free := 0
		for i := range want {
			m := message("x", [2]string{"", fmt.Sprint("k", rnd.IntN(3))}[rnd.IntN(2)], [2]string{"", fmt.Sprint("d", rnd.IntN(3))}[rnd.IntN(2)])
			switch {
			case m.Key != nil:
				want[i] = PartitionOfKey(m.Key, tp.Partitions)
			case route != nil:
				want[i] = PartitionOfKey(route, tp.Partitions)
			case m.Dedup != nil:
				want[i] = PartitionOfKey(m.Dedup, tp.Partitions)
			default:
				want[i], free = 1, free+1
			}
			all = append(all, m)
		}
		at, named, parts := tp.Split(all, route, func() int { return 1 })
		if parts == nil && !named && free != len(all) {
			t.Fatalf("%d of %d messages name a partition, and none is found", len(all)-free, len(all))
		}
		got := make([]int, len(all))
		for i := range got {
			got[i] = at
			if !named {
				got[i] = 1
			}
		}
		for _, p := range parts {
			for n, i := range p.index {
				got[i] = p.Partition
				if &p.Messages[n].Body[0] != &all[i].Body[0] {
					t.Fatal("another message")
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("partitions %v, want %v", got, want)
		}
	}
}

func TestOrderedTopicIsPlacedByKeysAlone(t *testing.T) {
	ordered := Topic{Partitions: 9, Ordered: true}
	all := []topic.Message{message("x", "", "dedup")}
	if _, named, parts := ordered.Split(all, []byte("route"), func() int { return 0 }); named || parts != nil || !Unplaced(all) {
		t.Error("a dedup id has chosen a partition of an ordered topic")
	}
	all = []topic.Message{message("x", "k", "dedup")}
	if at, named, _ := ordered.Split(all, nil, nil); !named || at != PartitionOfKey([]byte("k"), 9) || Unplaced(all) {
		t.Error("a key has not")
	}
}

func TestGather(t *testing.T) {
	refused, uncertain := fate.Refuse("refused"), errors.New("uncertain")
	for _, test := range []struct {
		first, second error
		want          error
		fate          fate.Fate
	}{
		{nil, nil, nil, 0},
		{refused, refused, refused, fate.Refused},
		{refused, nil, refused, fate.Uncertain},
		{nil, refused, refused, fate.Uncertain},
		{refused, uncertain, uncertain, fate.Uncertain},
		{uncertain, refused, uncertain, fate.Uncertain},
	} {
		var got []topic.Receipt
		g := NewGather(3, 2, func(r topic.Receipt) { got = append(got, r) })
		g.Answer(&Part{Partition: 4, index: []int{1}}, topic.Receipt{Partition: 4, First: 10, Count: 1, Err: test.first})
		if len(got) > 0 {
			t.Fatal("answered before all is known")
		}
		g.Answer(&Part{Partition: 2, index: []int{0, 2}}, topic.Receipt{Partition: 2, First: 20, Count: 2, Err: test.second})
		if len(got) != 1 || !errors.Is(got[0].Err, test.want) || got[0].Err != nil && fate.Of(got[0].Err) != test.fate {
			t.Errorf("%v and %v: %v", test.first, test.second, got)
			continue
		}
		if r := got[0]; test.want == nil {
			ids := []seq.MessageID{seq.NewMessageID(2, 20), seq.NewMessageID(4, 10), seq.NewMessageID(2, 21)}
			if r.Partition != 2 || r.First != 20 || r.Count != 3 || fmt.Sprint(r.IDs) != fmt.Sprint(ids) {
				t.Errorf("%+v", r)
			}
		}
	}
}

func TestFinder(t *testing.T) {
	var f Finder
	for _, rule := range []string{"prefix:|", "", "prefix:x", "prefix:|"} {
		all := []topic.Message{message("a|bxc", "", ""), message("a|b", "own", "")}
		f.Find(rule, all)
		want := map[string]string{"prefix:|": "a", "": "", "prefix:x": "a|b"}[rule]
		if string(all[0].Key) != want || string(all[1].Key) != "own" {
			t.Errorf("%q: keys %q and %q", rule, all[0].Key, all[1].Key)
		}
	}
}
