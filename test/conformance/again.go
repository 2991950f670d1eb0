package main

import (
	"context"
	"fmt"
	"time"
)

// again runs an action that needs a registry, and repeats it after a pause while it fails. No
// broker is involved.
func again(ctx context.Context, attempts int, pause time.Duration, do func() ([]byte, error)) ([]byte, error) {
	for n := 1; ; n++ {
		got, err := do()
		if err == nil {
			return got, nil
		}
		if n == attempts {
			return nil, fmt.Errorf("failed %d times, with pauses of %v: %w", attempts, pause, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, after %d attempts: %w", ctx.Err(), n, err)
		}
	}
}
