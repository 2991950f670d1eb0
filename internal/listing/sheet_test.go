package listing

import (
	"slices"
	"testing"
)

// TestLinesAreSortedLikeRows: a table has the number of a list's elements, and never for null.
func TestLinesAreSortedLikeRows(t *testing.T) {
	type line struct {
		Name      string   `json:"name"`
		Consumers []string `json:"consumers"`
		DrainsMS  *int64   `json:"drains_in_ms"`
	}
	list := struct {
		Lines []line `json:"lines"`
	}{[]line{
		{"a", []string{"a"}, new(int64(20))}, {"b", []string{"b", "c"}, nil}, {"c", []string{}, new(int64(0))}, {"d", make([]string, 10), new(int64(100))},
	}}
	for by, want := range map[string]string{"consumers": "dbac", "-consumers": "cabd", "drains in": "bdac", "name": "abcd"} {
		v := Sheet{Object: list, Lines: Lines(list.Lines), Names: Names(list.Lines, func(l line) string { return l.Name })}
		sorted, err := v.Sorted(ParseColumn(by))
		if err != nil {
			t.Fatal(err)
		}
		if got := sorted.Names; !slices.Equal(got, []string{want[:1], want[1:2], want[2:3], want[3:]}) {
			t.Errorf("by %s: %q, want %s", by, got, want)
		}
	}
}
