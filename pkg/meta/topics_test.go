package meta

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
)

// checkSet compares a set with its expected content.
func checkSet(t *testing.T, s *topicSet, want map[string]*Topic) {
	t.Helper()
	got := slices.Collect(s.all())
	names := slices.Sorted(maps.Keys(want))
	if len(got) != len(want) || s.count != len(want) {
		t.Fatalf("%d topics, counted %d, want %d", len(got), s.count, len(want))
	}
	partitions, load := 0, map[NodeID]Load{}
	for i, name := range names {
		if got[i] != want[name] || s.get(name) != want[name] {
			t.Fatalf("topic %d is %v, found %v, want %v", i, got[i], s.get(name), want[name])
		}
		partitions += len(want[name].Partitions)
		for _, p := range want[name].Partitions {
			for k, id := range p.Replicas {
				l := load[id]
				l.Replicas++
				if k == 0 {
					l.Leaders++
				}
				load[id] = l
			}
		}
	}
	if s.partitions != partitions || !maps.Equal(s.load, load) {
		t.Fatalf("%d partitions and load %v, counted %d and %v", partitions, load, s.partitions, s.load)
	}
	for i, p := range s.pages {
		if len(p) == 0 || len(p) > pageTopics {
			t.Fatalf("page %d has %d topics", i, len(p))
		}
		if i > 0 && len(p)+len(s.pages[i-1]) <= joinTopics {
			t.Fatalf("pages %d and %d have %d and %d topics", i-1, i, len(s.pages[i-1]), len(p))
		}
	}
}

// differences returns the names with different values in two maps.
func differences(was, is map[string]*Topic) (out [][2]*Topic) {
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if was[name] != is[name] {
			out = append(out, [2]*Topic{was[name], is[name]})
		}
	}
	return out
}

func checkChanges(t *testing.T, was, is *topicSet, want [][2]*Topic) {
	t.Helper()
	var got [][2]*Topic
	for a, b := range is.since(was) {
		got = append(got, [2]*Topic{a, b})
	}
	if !slices.Equal(got, want) {
		t.Fatalf("changes %v, want %v", got, want)
	}
}

// A set contains what was put into it, in any order. A copy of it never changes.
// since returns the differences between any two sets.
func TestTopicsAreASet(t *testing.T) {
	type moment struct {
		set  topicSet
		want map[string]*Topic
	}
	seed := testrand.Seed(t)
	for round := range uint64(20) {
		r := random{rand.New(rand.NewPCG(seed, round))}
		names := 1 + r.IntN(8*pageTopics)
		s, want := topicSet{}, map[string]*Topic{}
		moments := []moment{{topicSet{}, map[string]*Topic{}}}
		topic := func(name string) *Topic {
			made := &Topic{Name: name}
			for _, ids := range r.assignment(r.IntN(3), 1+r.IntN(3)) {
				made.Partitions = append(made.Partitions, Partition{Replicas: ids})
			}
			return made
		}
		rises := true // more are put than are removed
		for i := range 6 * names {
			name := fmt.Sprint(r.IntN(names))
			if i%(2*names) == 0 {
				moments = append(moments, moment{s, maps.Clone(want)})
			}
			if r.IntN(names) == 0 {
				rises = !rises
			}
			was := want[name]
			switch {
			case r.IntN(names) == 0:
				s.update(func(t *Topic) *Topic {
					if r.IntN(4) > 0 {
						return nil
					}
					want[t.Name] = topic(t.Name)
					return want[t.Name]
				})
			case was == nil || rises == (r.IntN(4) > 0):
				want[name] = topic(name)
				s.put(want[name])
			default:
				delete(want, name)
				s.remove(was)
			}
		}
		moments = append(moments, moment{s, want})
		for _, m := range moments {
			checkSet(t, &m.set, m.want)
			for _, n := range moments {
				checkChanges(t, &m.set, &n.set, differences(m.want, n.want))
			}
		}
		for _, t := range want {
			s.remove(t)
		}
		checkSet(t, &s, nil)
	}
}

// manyTopics returns a set of n topics.
func manyTopics(n int) (s topicSet) {
	for i := range n {
		s.put(&Topic{Name: fmt.Sprintf("t%06d", i), Partitions: []Partition{{Replicas: []NodeID{"a", "b"}}}})
	}
	return s
}

// Neither the memory that a change allocates nor the work to find it grows with the
// number of topics.
func TestChangeCostsAPage(t *testing.T) {
	for _, n := range []int{1, 100, 10_000, 20_000} {
		before := manyTopics(n)
		mid := fmt.Sprintf("t%06d", n/2)
		for what, change := range map[string]func(*topicSet){
			"put":     func(s *topicSet) { s.put(&Topic{Name: mid + "x"}) },
			"replace": func(s *topicSet) { s.put(&Topic{Name: mid}) },
			"remove":  func(s *topicSet) { s.remove(s.get(mid)) },
			"update": func(s *topicSet) {
				s.update(func(t *Topic) *Topic {
					if t.Name == mid {
						return &Topic{Name: mid}
					}
					return nil
				})
			},
		} {
			after := before
			change(&after)
			was, is := unshared(before.pages, after.pages)
			if len(was) > 2*pageTopics || len(is) > 2*pageTopics {
				t.Errorf("%s in %d topics: looked at %d and %d", what, n, len(was), len(is))
			}
			changed := 0
			for range after.since(&before) {
				changed++
			}
			if changed != 1 {
				t.Errorf("%s in %d topics: %d changes", what, n, changed)
			}
		}
		for range before.since(&before) {
			t.Fatal("a set differs from itself")
		}
	}
}
