// Package stack grows the stack of a new goroutine in one step, which avoids repeated stack
// copies.
package stack

import "runtime"

// room is what Grow makes room for.
const room = 8 << 10

// Grow makes the stack of a goroutine that has just begun large enough for a write to a
// file or a socket. It would be made so in three steps otherwise, each of which copies what
// is there, and does so more slowly the deeper the calls are.
//
//go:noinline
func Grow() {
	var frame [room]byte
	runtime.KeepAlive(&frame)
}
