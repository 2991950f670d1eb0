package main

import (
	"encoding/json"
	"reflect"
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
		sorted, err := v.sorted(listing.ParseColumn(v.order))
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
func (v view) sorted(by listing.Column) (view, error) {
	if reflect.TypeOf(v.lines[0]).Kind() != reflect.Struct {
		return v, nil // no fields to choose from
	}
	keys := fieldsOf(reflect.TypeOf(v.lines[0]))
	i, ok := by.In(keys)
	if !ok {
		return v, usageError("--sort-by: no field %q in %s", by.Name, strings.Join(keys, ", "))
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
	slices.SortStableFunc(places, func(a, b int) int { return by.Order(cells[a], cells[b]) })
	return v.picked(places), nil
}

// picked returns the view with some of its objects, by index.
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

// fieldsOf returns the names of a struct's fields in JSON, including those of embedded structs.
func fieldsOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous && name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
