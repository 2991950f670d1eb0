package broker

import "reflect"

// hidden returns an unexported field of another package: for tests that put a whole node
// into a state that its packages otherwise prevent.
func hidden[T any](of any, field string) *T {
	v := reflect.ValueOf(of).Elem().FieldByName(field)
	if v.Type() != reflect.TypeFor[T]() {
		panic("BUG: " + field + " is a " + v.Type().String())
	}
	return (*T)(v.Addr().UnsafePointer())
}
