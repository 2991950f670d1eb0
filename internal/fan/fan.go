// Package fan calls a function for several items concurrently. The number of goroutines is
// bounded, and none outlives the call.
package fan

import "sync"

// Out calls f with each of xs, at most so many at a time, and returns when all calls
// have. A single one is called by the caller's own goroutine.
func Out[T any](xs []T, most int, f func(T)) {
	if len(xs) == 1 {
		f(xs[0])
		return
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, most)
	for _, x := range xs {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			f(x)
		})
	}
	running.Wait()
}
