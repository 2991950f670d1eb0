package web

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/limit"
)

const (
	// shortAnswer is the maximum size, in bytes, of an answer that is built without a charge or a
	// turn.
	shortAnswer = 64 << 10
	// answerGrowth is the memory for building an answer relative to its size: for the statistics
	// or lists, their form for clients, and the text.
	answerGrowth = 3
	// quickAnswer is the time within which an answer may be built without waiting for others.
	quickAnswer = 5 * time.Millisecond
	// listTurn is the time after which the next long answer is begun, whether this one is complete or not: it may wait
	// for other nodes.
	listTurn = 250 * time.Millisecond
	// maxLists is how many requests may wait until their long answer is built; further ones are refused.
	maxLists = 64
)

// JSON is a value that is encoded.
type JSON []byte

// Answers builds the answers of endpoints, some of which grow with the number of topics and
// clients. Long ones are built in turns, one at a time, and count towards the memory budget until they are
// written. A nil *Answers has no limits. It is safe for concurrent use.
type Answers struct {
	Memory *limit.Memory // nil: no limit
	Turns  *limit.Turns  // nil: no limit
	// Lists are the turns in which answers are built that are long or take long, one after the other: clients that ask for
	// lists all the time do not delay publishes. nil: no limit.
	Lists *limit.Turns
}

// NewAnswers returns Answers with limits.
func NewAnswers(m *limit.Memory, t *limit.Turns) *Answers {
	return &Answers{Memory: m, Turns: t, Lists: limit.NewTurns(1)}
}

// Lengths records the recent sizes of the answers of one endpoint, and how long it took to build them. The zero value is
// ready.
type Lengths struct {
	// Reads: the endpoint only reads. Its answers are built one at a time if they are long or take long.
	Reads         bool
	most, slowest atomic.Int64
}

// observe records the size of an answer. A long answer outweighs many short ones after it, so that
// a client that alternates between both is charged for each long one.
func (l *Lengths) observe(n int, took time.Duration) {
	most, slowest := l.most.Load(), l.slowest.Load()
	l.most.Store(max(int64(n), most-most/64))
	l.slowest.Store(max(int64(took), slowest-slowest/4)) // one that was slow by chance is soon forgotten
}

// listing reports whether the next answer is probably long, or takes long to build.
func (l *Lengths) listing() bool {
	return l.Reads && (l.most.Load() > shortAnswer || time.Duration(l.slowest.Load()) > quickAnswer)
}

// Make calls an endpoint and encodes its value as JSON, unless it is nil or text. It reserves
// memory according to the endpoint's previous answers, and returns failure.NoMemory if the budget
// is exhausted. The caller must call written in any case, after it has written the answer.
func (a *Answers) Make(ctx context.Context, l *Lengths, endpoint func() (any, error)) (v any, written func(), err error) {
	if a == nil {
		a = &Answers{}
	}
	share := a.Memory.Share(limit.Answers)
	if l.listing() {
		if a.Lists.Waiting() >= maxLists {
			return nil, share.Close, share.Refuse()
		}
		defer a.Lists.AcquirePaced(listTurn)()
	}
	if expected := int(l.most.Load()); expected > shortAnswer {
		if err := share.Reserve(ctx, min(answerGrowth*expected, share.Most())); err != nil {
			return nil, share.Close, err
		}
		defer a.Turns.AcquireFor(limit.PublishTurn)()
	}
	began := time.Now()
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
	l.observe(length, time.Since(began))
	share.Give(share.Held() - length)
	return v, share.Close, nil
}
