package forward

import (
	"context"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Remote calls other nodes. Many goroutines may call its methods.
type Remote interface {
	// Go makes a call and returns at once. Calls to one node arrive in order. done is called
	// exactly once and never inside Go. It must not block, and the reply is valid until it returns.
	// payload must not be changed before that. An error that is marked fate.Refused means that
	// nothing was done.
	Go(node meta.NodeID, kind uint8, payload [][]byte, done func(reply []byte, err error))
	// Call makes a call and waits for its answer, which belongs to the caller, or for ctx. If ctx
	// ends first, the call may still be carried out.
	Call(ctx context.Context, node meta.NodeID, kind uint8, payload [][]byte) ([]byte, error)
}
