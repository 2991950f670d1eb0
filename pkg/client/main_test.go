package client_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

// atEnd runs after all tests and examples.
var atEnd []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range slices.Backward(atEnd) {
		f()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
