package forward

import (
	"context"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Remote is how this node asks others. Its methods may be called by many
// goroutines.
type Remote interface {
	// Go makes a call and returns at once. Calls to one node arrive in order.
	// done is called exactly once and never inside Go; it must not block, and the
	// reply is good until it returns. payload must not be changed before. An
	// error marked fate.Refused means that nothing was done.
	Go(node meta.NodeID, kind uint8, payload [][]byte, done func(reply []byte, err error))
	// Call makes a call and waits for its answer, which is the caller's, or for
	// ctx. Then the call may still be carried out.
	Call(ctx context.Context, node meta.NodeID, kind uint8, payload [][]byte) ([]byte, error)
}
