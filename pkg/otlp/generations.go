package otlp

import (
	"maps"
	"slices"
	"strings"
)

// generations is a map of bounded size: when the young half is full, the old half is
// dropped.
type generations[K comparable, V any] struct {
	young, old map[K]V
	gone       func(V) // called with each value that is dropped for lack of room; may be nil
}

func (g *generations[K, V]) len() int { return len(g.young) + len(g.old) }

func (g *generations[K, V]) keys() []K {
	return slices.AppendSeq(slices.Collect(maps.Keys(g.young)), maps.Keys(g.old))
}

func (g *generations[K, V]) put(k K, v V) {
	if len(g.young) >= maxKnown/2 {
		g.rotate()
	}
	if g.young == nil {
		g.young = map[K]V{}
	}
	delete(g.old, k)
	g.young[k] = v
}

func (g *generations[K, V]) get(k K) (V, bool) {
	if v, ok := g.young[k]; ok {
		return v, true
	}
	v, ok := g.old[k]
	return v, ok
}

func (g *generations[K, V]) take(k K) (V, bool) {
	v, ok := g.get(k)
	delete(g.young, k)
	delete(g.old, k)
	return v, ok
}

// rotate drops the old half, and makes the young half the old one.
func (g *generations[K, V]) rotate() {
	old := g.old
	g.young, g.old = nil, g.young
	if g.gone != nil {
		for _, v := range old {
			g.gone(v)
		}
	}
}

// valid returns text that protobuf accepts: short, and valid UTF-8.
func valid(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD")
}
