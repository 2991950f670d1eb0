package listing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Sheet is a list as commands print it for programs. It is a value: its methods change no Sheet.
type Sheet struct {
	Object any      // a struct that has the elements of Lines as the field of a slice
	Lines  []any    // its elements
	Names  []string // of each element; or others
}

// Sorted returns the list in the order of a column: a field in the JSON of its elements, which are of one type and
// not none.
func (v Sheet) Sorted(by Column) (Sheet, error) {
	if reflect.TypeOf(v.Lines[0]).Kind() != reflect.Struct {
		return v, nil // no fields to choose from
	}
	keys := fieldsOf(reflect.TypeOf(v.Lines[0]))
	i, ok := by.In(keys)
	if !ok {
		return v, fmt.Errorf("no field %q in %s", by.Name, strings.Join(keys, ", "))
	}
	cells := make([]string, len(v.Lines))
	places := make([]int, len(v.Lines))
	for n, l := range v.Lines {
		places[n] = n
		var fields map[string]json.RawMessage
		raw, err := json.Marshal(l)
		if err == nil {
			err = json.Unmarshal(raw, &fields)
		}
		if err != nil {
			return v, err
		}
		cells[n] = cellOf(fields[keys[i]])
	}
	slices.SortStableFunc(places, func(a, b int) int { return by.Order(cells[a], cells[b]) })
	return v.Picked(places), nil
}

// cellOf returns what a table shows of a value in JSON: the length of a list.
func cellOf(raw json.RawMessage) string {
	var list []json.RawMessage
	if bytes.HasPrefix(raw, []byte("[")) && json.Unmarshal(raw, &list) == nil {
		return strconv.Itoa(len(list))
	}
	return strings.Trim(string(raw), `"`)
}

// Picked returns some elements of the list, by index.
func (v Sheet) Picked(places []int) Sheet {
	lines := make([]any, len(places))
	names := make([]string, len(places))
	for n, p := range places {
		lines[n] = v.Lines[p]
		if len(v.Names) == len(v.Lines) {
			names[n] = v.Names[p]
		}
	}
	object := reflect.ValueOf(v.Object)
	for object.Kind() == reflect.Pointer {
		object = object.Elem()
	}
	if object.Kind() != reflect.Struct {
		v.Lines, v.Names = lines, names
		return v
	}
	fresh := reflect.New(object.Type()).Elem()
	fresh.Set(object)
	for i := range fresh.NumField() {
		list := fresh.Field(i)
		if list.Kind() != reflect.Slice || list.Len() != len(v.Lines) || list.Type().Elem() != reflect.TypeOf(v.Lines[0]) {
			continue
		}
		picked := reflect.MakeSlice(list.Type(), 0, len(places))
		for _, l := range lines {
			picked = reflect.Append(picked, reflect.ValueOf(l))
		}
		list.Set(picked)
		break
	}
	v.Object, v.Lines, v.Names = fresh.Interface(), lines, names
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
