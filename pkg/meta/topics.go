package meta

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

const (
	// pageTopics is the maximum number of topics on a page.
	pageTopics = 128
	// joinTopics is the maximum number of topics on two pages that are merged.
	joinTopics = pageTopics / 2
)

// topicSet is the topics by name, on pages. A change creates a new page and shares all others with
// the previous set. A copy therefore costs nothing and never changes, and the differences between
// two sets are found without visiting shared pages. The zero value is empty.
type topicSet struct {
	pages      []page
	count      int
	partitions int             // of all topics
	load       map[NodeID]Load // as returned by State.Load; the map is never changed
}

// page is a non-empty sequence of consecutive topics. It is immutable.
type page []*Topic

// same reports whether two pages are identical, rather than equal.
func (p page) same(q page) bool { return len(p) == len(q) && &p[0] == &q[0] }

// find returns the page of a topic and its index there, or where it would be.
func (s *topicSet) find(name string) (at, place int, found bool) {
	at, _ = slices.BinarySearchFunc(s.pages, name, func(p page, name string) int {
		return strings.Compare(p[len(p)-1].Name, name)
	})
	if at == len(s.pages) {
		if at == 0 {
			return 0, 0, false
		}
		at--
	}
	place, found = slices.BinarySearchFunc(s.pages[at], name, func(t *Topic, name string) int {
		return strings.Compare(t.Name, name)
	})
	return at, place, found
}

func (s *topicSet) get(name string) *Topic {
	if at, place, found := s.find(name); found {
		return s.pages[at][place]
	}
	return nil
}

func (s *topicSet) last() *Topic {
	if len(s.pages) == 0 {
		return nil
	}
	p := s.pages[len(s.pages)-1]
	return p[len(p)-1]
}

func (s *topicSet) all() iter.Seq[*Topic] {
	pages := s.pages
	return func(yield func(*Topic) bool) {
		for _, p := range pages {
			for _, t := range p {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// put adds a topic, or replaces the one with its name, and returns it.
func (s *topicSet) put(t *Topic) *Topic {
	at, place, found := s.find(t.Name)
	switch {
	case found:
		s.account(s.pages[at][place], t)
		next := slices.Clone(s.pages[at])
		next[place] = t
		s.replace(at, 1, next)
		return t
	case len(s.pages) == 0:
		s.replace(0, 0, page{t})
	default:
		next := slices.Insert(slices.Clone(s.pages[at]), place, t)
		if half := len(next) / 2; len(next) > pageTopics {
			s.replace(at, 1, next[:half:half], next[half:])
		} else {
			s.replace(at, 1, next)
		}
	}
	s.account(nil, t)
	s.count++
	return t
}

// remove removes a topic, which must exist.
func (s *topicSet) remove(t *Topic) {
	at, place, _ := s.find(t.Name)
	s.account(s.pages[at][place], nil)
	s.count--
	next, n := slices.Concat(s.pages[at][:place], s.pages[at][place+1:]), 1
	if at+1 < len(s.pages) && len(next)+len(s.pages[at+1]) <= joinTopics {
		next, n = slices.Concat(next, s.pages[at+1]), n+1
	}
	if at > 0 && len(s.pages[at-1])+len(next) <= joinTopics {
		at--
		next, n = slices.Concat(s.pages[at], next), n+1
	}
	if len(next) == 0 {
		s.replace(at, n)
	} else {
		s.replace(at, n, next)
	}
}

// update replaces each topic by the result of f; nil: it stays. This is cheaper than calling put
// for each.
func (s *topicSet) update(f func(*Topic) *Topic) {
	pages := slices.Clone(s.pages)
	for at, p := range pages {
		var next page // p, once it changes
		for place, t := range p {
			is := f(t)
			if is == nil {
				continue
			}
			if next == nil {
				next = slices.Clone(p)
				pages[at] = next
			}
			s.account(t, is)
			next[place] = is
		}
	}
	s.pages = pages
}

// replace replaces n pages by others.
func (s *topicSet) replace(at, n int, pages ...page) {
	s.pages = slices.Concat(s.pages[:at], pages, s.pages[at+n:])
}

// account updates the counts for a changed topic; nil: it did not exist, or no longer exists.
func (s *topicSet) account(was, is *Topic) {
	if was != nil && is != nil && slices.EqualFunc(was.Partitions, is.Partitions, func(p, q Partition) bool {
		return slices.Equal(p.Replicas, q.Replicas)
	}) {
		return
	}
	load := maps.Clone(s.load)
	if load == nil {
		load = map[NodeID]Load{}
	}
	add := func(t *Topic, n int) {
		if t == nil {
			return
		}
		s.partitions += n * len(t.Partitions)
		for i := range t.Partitions {
			for k, id := range t.Partitions[i].Replicas {
				l := load[id]
				l.Replicas += n
				if k == 0 { // the preferred leader, to which balance returns leaderships
					l.Leaders += n
				}
				if load[id] = l; l == (Load{}) {
					delete(load, id)
				}
			}
		}
	}
	add(is, 1)
	add(was, -1)
	s.load = load
}

// since iterates over the topics that differ from those of an older set, by name, with the old and
// the new value; nil: none.
func (s *topicSet) since(old *topicSet) iter.Seq2[*Topic, *Topic] {
	return func(yield func(was, is *Topic) bool) {
		before, after := unshared(old.pages, s.pages)
		for len(before) > 0 || len(after) > 0 {
			var was, is *Topic
			switch order := firstOf(before, after); {
			case order < 0:
				was = before[0]
			case order > 0:
				is = after[0]
			default:
				was, is = before[0], after[0]
			}
			if was != nil {
				before = before[1:]
			}
			if is != nil {
				after = after[1:]
			}
			if was != is && !yield(was, is) {
				return
			}
		}
	}
}

// firstOf reports which of two lists, not both empty, begins with the lesser name: the first (-1),
// the second (1), or both (0).
func firstOf(a, b []*Topic) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return strings.Compare(a[0].Name, b[0].Name)
}

// unshared returns the topics on the pages of each that the other lacks.
func unshared(a, b []page) (onlyA, onlyB []*Topic) {
	for len(a) > 0 && len(b) > 0 {
		if a[0].same(b[0]) {
			a, b = a[1:], b[1:]
			continue
		}
		order := strings.Compare(a[0][0].Name, b[0][0].Name)
		if order <= 0 {
			onlyA, a = append(onlyA, a[0]...), a[1:]
		}
		if order >= 0 {
			onlyB, b = append(onlyB, b[0]...), b[1:]
		}
	}
	return append(onlyA, slices.Concat(a...)...), append(onlyB, slices.Concat(b...)...)
}
