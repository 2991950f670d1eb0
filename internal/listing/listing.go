// Package listing makes what the commands of brokerctl print of lists, and orders it.
package listing

import (
	"maps"
	"slices"
	"strings"
)

// Lines returns the elements of a list, each for a line of its own.
func Lines[T any](list []T) []any {
	lines := make([]any, len(list))
	for i := range list {
		lines[i] = list[i]
	}
	return lines
}

// Names returns the name of each element.
func Names[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = name(list[i])
	}
	return names
}

// Pairs formats a map as key=value pairs in one line, sorted by key.
func Pairs(m map[string]string) string {
	pairs := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, key+"="+m[key])
	}
	return strings.Join(pairs, " ")
}
