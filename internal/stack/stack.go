// Package stack grows the stack of a new goroutine in one step, which avoids repeated stack
// copies.
package stack

import "runtime"

// room is what Grow makes room for.
const room = 8 << 10

// Grow enlarges the stack of a new goroutine for a write to a file or a socket. Otherwise it would
// grow in three steps, each of which copies the stack, more slowly the deeper the calls are.
//
//go:noinline
func Grow() {
	var frame [room]byte
	runtime.KeepAlive(&frame)
}
