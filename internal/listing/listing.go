// Package listing makes what the commands of brokerctl print of lists, and orders it.
package listing

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
