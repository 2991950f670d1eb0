// Package steps is for programs that do one thing after the other, such as test scenarios: the first
// step that fails ends the list, as Fatal of package testing ends a test.
package steps

import "fmt"

// failed is what a failed step panics with.
type failed struct{ err error }

// Run runs a list of steps, and returns the error of the one that failed.
func Run(list func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failed:
			err = p.err
		default:
			panic(p)
		}
	}()
	list()
	return nil
}

// Must ends the list of steps to which it belongs if the step failed. It is for the goroutine of the list.
func Must(err error) {
	if err != nil {
		panic(failed{err})
	}
}

// Need is Must for a step with a result.
func Need[T any](v T, err error) T {
	Must(err)
	return v
}

// Fail ends the list of steps to which it belongs.
func Fail(format string, args ...any) { Must(fmt.Errorf(format, args...)) }

// During runs steps whose error tells during what they failed.
func During(what string, list func()) {
	if err := Run(list); err != nil {
		Fail("%s: %w", what, err)
	}
}
