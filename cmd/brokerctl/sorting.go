package main

import (
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/listing"
)

// sort sorts the rows of a table.
func (c *columns) sort(by listing.Column) error {
	i, ok := by.In(c.header)
	if !ok {
		return usageError("--sort-by: no column %q in %s", by.Name, strings.Join(listing.Names(c.header, func(h string) string { return strings.TrimPrefix(h, "+") }), ", "))
	}
	slices.SortStableFunc(c.rows, func(a, b []string) int { return by.Order(a[i], b[i]) })
	return nil
}

// arranged returns the view in its sort order, limited to its rows, for programs. Tables are
// sorted when they are printed.
func (v view) arranged(f format) (view, error) {
	if f == formatTable || f == formatWide || len(v.lines) == 0 {
		return v, nil
	}
	if v.order != "" {
		s, err := v.sheet().Sorted(listing.ParseColumn(v.order))
		if err != nil {
			return v, usageError("--sort-by: %w", err)
		}
		v.object, v.lines, v.names = s.Object, s.Lines, s.Names
	}
	if v.rows > 0 && len(v.lines) > v.rows {
		places := make([]int, v.rows)
		for i := range places {
			places[i] = i
		}
		s := v.sheet().Picked(places)
		v.object, v.lines, v.names = s.Object, s.Lines, s.Names
	}
	return v, nil
}

func (v view) sheet() listing.Sheet {
	return listing.Sheet{Object: v.object, Lines: v.lines, Names: v.names}
}
