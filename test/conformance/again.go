package main

import (
	"context"
	"fmt"
	"time"
)

// again does what a registry on the network is needed for, and does it again after a
// pause while it fails. No broker takes part in it.
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
