package web

import (
	"context"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/limit"
)

const (
	// shortAnswer is the longest answer, in bytes, that is made without a charge or a turn.
	shortAnswer = 64 << 10
	// answerGrowth is how much memory the making of an answer takes, in lengths of the
	// answer: for the statistics or lists, their form for clients, and the text.
	answerGrowth = 3
)

// JSON is a value that is encoded.
type JSON []byte

// Answers makes the answers of endpoints, of which some are as long as there are topics
// and clients. Long ones are made in turns, and are part of the memory budget until they
// are written. A nil *Answers has no limits. It may be used by many goroutines.
type Answers struct {
	Memory *limit.Memory // nil: no limit
	Turns  *limit.Turns  // nil: no limit
}

// Lengths is what the answers of one endpoint have been like recently. The zero value has
// seen none.
type Lengths struct{ most atomic.Int64 }

// observe takes in the length of an answer. One that is long counts for many short ones
// that follow, so that who asks for both in turn pays for each long one.
func (l *Lengths) observe(n int) {
	most := l.most.Load()
	l.most.Store(max(int64(n), most-most/64))
}

// Make calls an endpoint and encodes its value as JSON, unless that is nil or text. What
// it takes is charged by what the endpoint's answers took before. It is failure.NoMemory
// if the budget is spent. The caller calls written in any case, once it has written the
// answer.
func (a *Answers) Make(ctx context.Context, l *Lengths, endpoint func() (any, error)) (v any, written func(), err error) {
	if a == nil {
		a = &Answers{}
	}
	share := a.Memory.Share(limit.Answers)
	if expected := int(l.most.Load()); expected > shortAnswer {
		if err := share.Reserve(ctx, min(answerGrowth*expected, share.Most())); err != nil {
			return nil, share.Close, err
		}
		defer a.Turns.Lend(limit.PublishTurn)()
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
