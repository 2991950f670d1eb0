package broker

import "reflect"

// hidden returns a field that another room keeps to itself: for tests that bring a whole
// node into a state that its packages prevent otherwise.
func hidden[T any](of any, field string) *T {
	v := reflect.ValueOf(of).Elem().FieldByName(field)
	if v.Type() != reflect.TypeFor[T]() {
		panic("BUG: " + field + " is a " + v.Type().String())
	}
	return (*T)(v.Addr().UnsafePointer())
}
