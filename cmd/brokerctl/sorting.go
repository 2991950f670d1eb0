package main

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/units"
)

// sortColumn is a column or a field by which rows are sorted: numbers, sizes and
// durations the largest first, texts from A to Z; with - before it the other way.
type sortColumn struct {
	name    string
	reverse bool
}

func parseSortColumn(text string) sortColumn {
	name, reverse := strings.CutPrefix(text, "-")
	return sortColumn{plainName(name), reverse}
}

// plainName makes one of "IN-FLIGHT", "in flight" and "in_flight".
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '-', ' ', '/', '.', '_', '+':
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// in returns which of some names the column is: the same but for spelling, or else the
// first that begins with it.
func (s sortColumn) in(names []string) (int, bool) {
	for _, fits := range []func(name string) bool{
		func(name string) bool { return plainName(name) == s.name },
		func(name string) bool { return strings.HasPrefix(plainName(name), s.name) },
	} {
		if i := slices.IndexFunc(names, fits); i >= 0 {
			return i, true
		}
	}
	return 0, false
}

// order compares two cells.
func (s sortColumn) order(a, b string) int {
	x, isX := measureOf(a)
	y, isY := measureOf(b)
	var c int
	switch {
	case isX && isY:
		c = cmp.Compare(y, x)
	case isX != isY: // what is no number is less than any
		c = -1
		if isY {
			c = 1
		}
	default:
		c = strings.Compare(a, b)
	}
	if s.reverse {
		return -c
	}
	return c
}

// measureOf reads a cell that is a number, a size or a duration, as commands print them.
func measureOf(cell string) (float64, bool) {
	text := strings.ReplaceAll(cell, ",", "")
	text = strings.TrimPrefix(text, "<")
	switch text {
	case "-", "now", "null":
		return 0, true
	case "never":
		return float64(1<<63 - 1), true
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return x, true
	}
	if d, err := units.ParseDuration(text); err == nil {
		return float64(d), true
	}
	if d, err := time.ParseDuration(text); err == nil {
		return float64(d), true
	}
	number, unit, ok := strings.Cut(text, " ")
	x, err := strconv.ParseFloat(number, 64)
	power := strings.Index("B KiBMiBGiBTiBPiBEiB", unit)
	if !ok || err != nil || power < 0 || unit == "" {
		return 0, false
	}
	for range (power + 1) / 3 {
		x *= 1024
	}
	return x, true
}

// sort sorts the rows of a table.
func (c *columns) sort(by sortColumn) error {
	i, ok := by.in(c.header)
	if !ok {
		return usageError("--sort-by: no column %q in %s", by.name, strings.Join(listing.Names(c.header, func(h string) string { return strings.TrimPrefix(h, "+") }), ", "))
	}
	slices.SortStableFunc(c.rows, func(a, b []string) int { return by.order(a[i], b[i]) })
	return nil
}

// arranged returns the view in the order that it names, with no more than its rows, in a
// form for programs. Tables are sorted when they are printed.
func (v view) arranged(f format) (view, error) {
	if f == formatTable || f == formatWide || len(v.lines) == 0 {
		return v, nil
	}
	if v.order != "" {
		sorted, err := v.sorted(parseSortColumn(v.order))
		if err != nil {
			return v, err
		}
		v = sorted
	}
	if v.rows > 0 && len(v.lines) > v.rows {
		places := make([]int, v.rows)
		for i := range places {
			places[i] = i
		}
		v = v.picked(places)
	}
	return v, nil
}

// sorted returns the view with its objects in another order. The objects are of one type, which has the column as a field of its JSON.
func (v view) sorted(by sortColumn) (view, error) {
	if reflect.TypeOf(v.lines[0]).Kind() != reflect.Struct {
		return v, nil // there are no fields to choose from
	}
	keys := fieldsOf(reflect.TypeOf(v.lines[0]))
	i, ok := by.in(keys)
	if !ok {
		return v, usageError("--sort-by: no field %q in %s", by.name, strings.Join(keys, ", "))
	}
	cells := make([]string, len(v.lines))
	places := make([]int, len(v.lines))
	for n, l := range v.lines {
		places[n] = n
		var fields map[string]json.RawMessage
		raw, err := json.Marshal(l)
		if err == nil {
			err = json.Unmarshal(raw, &fields)
		}
		if err != nil {
			return v, err
		}
		cells[n] = strings.Trim(string(fields[keys[i]]), `"`)
	}
	slices.SortStableFunc(places, func(a, b int) int { return by.order(cells[a], cells[b]) })
	return v.picked(places), nil
}

// picked returns the view with those of its objects that stand at some places.
func (v view) picked(places []int) view {
	lines := make([]any, len(places))
	names := make([]string, len(places))
	for n, p := range places {
		lines[n] = v.lines[p]
		if len(v.names) == len(v.lines) {
			names[n] = v.names[p]
		}
	}
	object := reflect.ValueOf(v.object)
	for object.Kind() == reflect.Pointer {
		object = object.Elem()
	}
	if object.Kind() != reflect.Struct {
		v.lines, v.names = lines, names
		return v
	}
	fresh := reflect.New(object.Type()).Elem()
	fresh.Set(object)
	for i := range fresh.NumField() {
		list := fresh.Field(i)
		if list.Kind() != reflect.Slice || list.Len() != len(v.lines) || list.Type().Elem() != reflect.TypeOf(v.lines[0]) {
			continue
		}
		picked := reflect.MakeSlice(list.Type(), 0, len(places))
		for _, l := range lines {
			picked = reflect.Append(picked, reflect.ValueOf(l))
		}
		list.Set(picked)
		break
	}
	v.object, v.lines, v.names = fresh.Interface(), lines, names
	return v
}

// fieldsOf returns the names of a struct's fields in its JSON, with those of what it
// embeds.
func fieldsOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous && name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
