package host

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/brokerd/brokerd/pkg/seq"
)

// namedShifts is how many partitions one line of the log names.
const namedShifts = 8

// shifts are the leaderships that this node has gained and lost since they were last summed up in
// the log: a thousand partitions that move at once are one line.
type shifts struct {
	mu    sync.Mutex // guards what follows
	began tally
	ended tally
}

// tally counts partitions and names the first ones.
type tally struct {
	n     int
	named []string
}

func (t *tally) add(topic string, partition int, epoch seq.Epoch) {
	if t.n++; t.n <= namedShifts {
		t.named = append(t.named, fmt.Sprintf("%s/%d@%d", topic, partition, epoch))
	}
}

// String names the partitions, each with the epoch of its leadership.
func (t tally) String() string {
	s := strings.Join(t.named, " ")
	if more := t.n - len(t.named); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// begin records that this node leads a partition.
func (s *shifts) begin(log *slog.Logger, topic string, lp *Led) {
	epoch := lp.Term.Epoch()
	log.Debug("started leading partition", "topic", topic, "partition", lp.Index, "epoch", epoch)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began.add(topic, lp.Index, epoch)
}

// end records that this node no longer leads a partition, and why.
func (s *shifts) end(log *slog.Logger, topic string, lp *Led, why error) {
	epoch := lp.Term.Epoch()
	log.Debug("stopped leading partition", "topic", topic, "partition", lp.Index, "epoch", epoch, "reason", why)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended.add(topic, lp.Index, epoch)
}

// sumUp logs the changes since the last call, if there are any.
func (s *shifts) sumUp(log *slog.Logger) {
	s.mu.Lock()
	began, ended := s.began, s.ended
	s.began, s.ended = tally{}, tally{}
	s.mu.Unlock()
	if began.n > 0 {
		log.Info("started leading partitions", "count", began.n, "partitions", began.String())
	}
	if ended.n > 0 {
		log.Info("stopped leading partitions", "count", ended.n, "partitions", ended.String())
	}
}
