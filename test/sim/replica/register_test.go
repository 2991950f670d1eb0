package replica

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// theTopic is the only topic. It has one partition.
const theTopic = "t"

var (
	errLost    = errors.New("the answer was lost")
	errNotSent = fate.Refuse("the metadata cannot be reached")
)

// register orders the commands to the metadata. All nodes learn the commands sooner or later, and
// always in order.
type register struct {
	mu      sync.Mutex // guards what follows
	rnd     *rand.Rand
	state   meta.State
	log     []meta.Command
	changed chan struct{}

	noCompare bool // a planted mistake
	late      int  // percentage of the proposals that are decided long after they were made
}

func newRegister(seed uint64) *register {
	return &register{rnd: rand.New(rand.NewPCG(seed, 78)), changed: make(chan struct{}), late: 5}
}

// apply applies a command.
func (r *register) apply(c meta.Command) (uint64, meta.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if change, ok := c.(meta.AlterISR); ok && r.noCompare {
		now := r.state.Topic(theTopic).Partitions[0]
		change.Version, change.Epoch = now.Version, now.Epoch
		c = change
	}
	result := r.state.Apply(r.state.Index()+1, c)
	r.log = append(r.log, c)
	close(r.changed)
	r.changed = make(chan struct{})
	return r.state.Index(), result
}

// since returns the commands behind an index, and a channel that is closed when there are more.
func (r *register) since(index uint64) ([]meta.Command, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log[index:], r.changed
}

// view returns the partition as it is now.
func (r *register) view() (meta.Partition, *meta.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Topic(theTopic).Partitions[0], r.state.Snapshot()
}

func (r *register) chance(percent int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rnd.IntN(100) < percent
}

func (r *register) delay(most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.rnd.Int64N(int64(most)))
}

// propose sends a command from a node to the register. The command may come late or be lost, and
// its answer may be lost.
func (r *register) propose(c meta.Command, reachable func() bool) error {
	time.Sleep(r.delay(10 * time.Millisecond))
	switch {
	case !reachable() && r.chance(50):
		return errNotSent
	case !reachable() || r.chance(5):
		return errLost
	case r.chance(r.late): // it is decided long after its proposer gave up
		go func() {
			time.Sleep(r.delay(3 * time.Second))
			r.apply(c)
		}()
		return errLost
	}
	_, result := r.apply(c)
	time.Sleep(r.delay(10 * time.Millisecond))
	if r.chance(5) {
		return errLost
	}
	return result.Err
}
