package main

import (
	"context"
	"errors"
	"testing"
)

func TestFailuresAreRetriedUpToALimit(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		failures, attempts, want int
		err                      error
	}{
		{0, 3, 1, nil},
		{2, 3, 3, nil},
		{3, 3, 3, broken},
	} {
		n := 0
		got, err := again(t.Context(), c.attempts, 0, func() ([]byte, error) {
			if n++; n <= c.failures {
				return nil, broken
			}
			return []byte("x"), nil
		})
		if n != c.want || !errors.Is(err, c.err) || (err == nil) != (string(got) == "x") {
			t.Errorf("%d failures: done %d times, %q, %v", c.failures, n, got, err)
		}
	}
}

func TestNoRetryAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	broken, n := errors.New("broken"), 0
	_, err := again(ctx, 3, 1<<62, func() ([]byte, error) { n++; return nil, broken })
	if n != 1 || !errors.Is(err, broken) || !errors.Is(err, context.Canceled) {
		t.Errorf("done %d times, %v", n, err)
	}
}
