package web

import (
	"context"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/limit"
)

const (
	// shortAnswer is the maximum size, in bytes, of an answer that is built without a charge or a
	// turn.
	shortAnswer = 64 << 10
	// answerGrowth is the memory for building an answer relative to its size: for the statistics
	// or lists, their form for clients, and the text.
	answerGrowth = 3
)

// JSON is a value that is encoded.
type JSON []byte

// Answers builds the answers of endpoints, some of which grow with the number of topics and
// clients. Long ones are built in turns, and count towards the memory budget until they are
// written. A nil *Answers has no limits. It is safe for concurrent use.
type Answers struct {
	Memory *limit.Memory // nil: no limit
	Turns  *limit.Turns  // nil: no limit
}

// Lengths records the recent sizes of the answers of one endpoint. The zero value is ready.
type Lengths struct{ most atomic.Int64 }

// observe records the size of an answer. A long answer outweighs many short ones after it, so that
// a client that alternates between both is charged for each long one.
func (l *Lengths) observe(n int) {
	most := l.most.Load()
	l.most.Store(max(int64(n), most-most/64))
}

// Make calls an endpoint and encodes its value as JSON, unless it is nil or text. It reserves
// memory according to the endpoint's previous answers, and returns failure.NoMemory if the budget
// is exhausted. The caller must call written in any case, after it has written the answer.
func (a *Answers) Make(ctx context.Context, l *Lengths, endpoint func() (any, error)) (v any, written func(), err error) {
	if a == nil {
		a = &Answers{}
	}
	share := a.Memory.Share(limit.Answers)
	if expected := int(l.most.Load()); expected > shortAnswer {
		if err := share.Reserve(ctx, min(answerGrowth*expected, share.Most())); err != nil {
			return nil, share.Close, err
		}
		defer a.Turns.AcquireFor(limit.PublishTurn)()
	}
	if v, err = endpoint(); err != nil {
		return nil, share.Close, err
	}
	length := 0
	switch text := v.(type) {
	case nil:
	case string:
		length = len(text)
	case []byte:
		length = len(text)
	default:
		body := EncodeJSON(v)
		v, length = JSON(body), len(body)
	}
	l.observe(length)
	share.Give(share.Held() - length)
	return v, share.Close, nil
}
