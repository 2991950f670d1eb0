package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/topic"
)

// An operator deletes and restores a channel at random, and consumers create it again in between, while leaderships
// move and nodes lose power, also during a restore. Its messages are requeued for long, become dead letters and are
// redriven. At the end, everything that was acknowledged since the channel was created first has been delivered.
func TestRestoresLoseNothing(t *testing.T) {
	seeds := testrand.New(t)
	for range 8 {
		seed := seeds.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newRestores(t, rand.New(rand.NewPCG(seed, 1)))
				for range 40 {
					x.step()
				}
				x.end()
			})
		})
	}
}

// restores is a history of channel c of topic t.
type restores struct {
	*lan
	r        *rand.Rand
	all      []string // acknowledged
	finished map[string]bool
	deleted  int
	log      []string // what was done
}

var restoring = []meta.NodeID{"n1", "n2", "n3"}

func newRestores(t *testing.T, r *rand.Rand) *restores {
	x := &restores{r: r, finished: map[string]bool{}}
	x.lan = newLan(t, func(o *Options) { o.Moves.RequeueInMemory = time.Second }, restoring...)
	config := meta.TopicConfig{Partitions: 1, Replicas: 3, Channels: policy.Policy{MaxAttempts: 3}}.WithDefaults(3, false)
	if _, err := x.store.Propose(t.Context(), meta.CreateTopic{Name: "t", Config: config, Assignment: [][]meta.NodeID{restoring}}); err != nil {
		t.Fatal(err)
	}
	x.inSync("t", 0, 3)
	for _, name := range []string{"other", "c"} {
		if err := x.leader("t", 0).Directory.CreateChannel(t.Context(), "t", name, false); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func (x *restores) did(format string, args ...any) {
	x.log = append(x.log, fmt.Sprintf(format, args...))
}

// any returns a node.
func (x *restores) any() *Broker { return x.at(restoring[x.r.IntN(len(restoring))]) }

func (x *restores) step() {
	switch x.r.IntN(11) {
	case 0, 1, 2:
		x.publish()
	case 3, 4, 5:
		x.consume(60, 25)
	case 6:
		if x.deleted++; x.deleted <= 5 {
			x.did("delete: %v", x.any().Contents.DeleteChannel(x.t.Context(), "t", "c"))
		}
	case 7:
		_, err := x.any().Contents.RestoreChannel(x.t.Context(), "t", "c", x.r.IntN(2) == 0)
		x.did("restore: %v", err)
	case 8:
		x.inSync("t", 0, 3)
		p := x.store.Topic("t").Partitions[0]
		e := meta.Election{Topic: "t", Version: p.Version, Leader: p.ISR[x.r.IntN(len(p.ISR))]}
		_, err := x.store.Propose(x.t.Context(), meta.ElectLeaders{Elections: []meta.Election{e}})
		x.leader("t", 0)
		x.did("elect %s: %v, leader is %s", e.Leader, err, x.store.Topic("t").Partitions[0].Leader)
	case 9:
		x.restoreWhileANodeDies()
	case 10:
		x.redrive()
	}
}

func (x *restores) publish() {
	for range 1 + x.r.IntN(3) {
		body := fmt.Sprint(len(x.all))
		x.mustPut("t", 0, body)
		x.all = append(x.all, body)
	}
	x.did("published to %d", len(x.all))
}

// consume takes what is there: of a hundred messages it finishes some, and requeues some for long and the others at
// once. It returns how many it took.
func (x *restores) consume(finish, long int) (taken int) {
	c := x.subscribe("t", "c", 0)
	defer c.Close()
	for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
		var got []topic.Delivery
		if _, err := c.Take(time.Now(), 100, func(d *topic.Delivery) error {
			e := *d
			e.Body = []byte(string(d.Body))
			got = append(got, e)
			return nil
		}); err != nil {
			x.t.Fatal(err)
		}
		for _, d := range got {
			taken++
			x.did("took %d %q attempt %d", d.ID.Offset(), d.Body, d.Attempts)
			switch n := x.r.IntN(100); {
			case n < finish:
				if c.Finish(d.ID) == nil {
					x.finished[string(d.Body)] = true
				}
			case n < finish+long:
				_ = c.Requeue(d.ID, 2*time.Second)
			default:
				_ = c.Requeue(d.ID, 0)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Duration(x.r.IntN(2000)) * time.Millisecond)
	x.did("consumed %d, finished %d", taken, len(x.finished))
	return taken
}

func (x *restores) redrive() {
	a := operate.DeadLetterAction{Topic: "t", Channel: "c", Max: 100}
	s, err := x.any().Contents.Policies().RedriveOrPurge(x.t.Context(), a)
	x.did("redrive: %d, %v", s.Letters, err)
}

// restoreWhileANodeDies restores the channel at one node while another one loses power.
func (x *restores) restoreWhileANodeDies() {
	victim := restoring[x.r.IntN(3)]
	at := restoring[x.r.IntN(3)]
	for at == victim {
		at = restoring[x.r.IntN(3)]
	}
	done := make(chan error, 1)
	go func() {
		_, err := x.at(at).Contents.RestoreChannel(x.t.Context(), "t", "c", true)
		done <- err
	}()
	time.Sleep(time.Duration(x.r.IntN(3000)) * time.Microsecond)
	x.kill(victim)
	x.failOver(victim)
	err := <-done
	x.start(victim)
	for _, t := range x.store.Topics() {
		x.inSync(t.Name, 0, 3)
		x.leader(t.Name, 0)
	}
	x.did("restore at %s while %s died: %v", at, victim, err)
}

// end restores all that was deleted, and consumes everything.
func (x *restores) end() {
	for i := 0; ; i++ {
		_, err := x.any().Contents.RestoreChannel(x.t.Context(), "t", "c", true)
		x.did("restore: %v", err)
		if errors.Is(err, failure.ChannelThere) || errors.Is(err, failure.NothingToUndo) {
			break
		}
		if i > 20 {
			x.t.Fatalf("restores do not end: %v\n%v", err, x.log)
		}
	}
	for quiet := 0; quiet < 3; {
		x.redrive()
		time.Sleep(5 * time.Second)
		if quiet++; x.consume(100, 0) > 0 {
			quiet = 0
		}
	}
	for _, body := range x.all {
		if !x.finished[body] {
			x.t.Errorf("message %s is lost", body)
		}
	}
	if x.t.Failed() {
		for _, line := range x.log {
			x.t.Log(line)
		}
	}
}

// A channel whose deletion failed after its position was saved was never deleted: there is nothing to restore.
func TestChannelThatIsStillThereIsNotRestored(t *testing.T) {
	l := newLan(t, nil, "n1")
	ctx, b := t.Context(), l.at("n1")
	l.create("t", "n1")
	if err := b.Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	topic := l.store.Topic("t")
	if _, err := l.store.Propose(ctx, meta.SavePositions{Saved: meta.Saved{
		At: time.Now().UnixNano(), Verb: operate.SavedDelete, Topic: "t", Incarnation: topic.Incarnation, Channel: "c", Version: topic.Channels["c"].Version,
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Contents.RestoreChannel(ctx, "t", "c", true); !errors.Is(err, failure.ChannelThere) {
		t.Errorf("restored: %v", err)
	}
}

// A deletion does not wait for a partition without a leader, and a restore says where it does not know the position.
func TestRestoreNamesPartitionsWithoutAPosition(t *testing.T) {
	l := movedLan(t)
	ctx := t.Context()
	before := l.store.Topic("t")
	resume := l.at("n2").Host.Lookup("t").Suspend()
	var log logtest.Journal
	l.at("n1").Node.Log = slog.New(slog.NewTextHandler(&log, nil))
	err := l.at("n1").Contents.DeleteChannel(ctx, "t", "c")
	resume()
	if err != nil {
		t.Fatal(err)
	}
	if !log.Has("cannot save the position of a deleted channel", "partitions=[1]") {
		t.Errorf("the log does not name the partition: %s", log.String())
	}
	history, err := l.at("n1").Contents.ChannelHistory("t", "c")
	if err != nil {
		t.Fatal(err)
	}
	if len(history) == 0 || !slices.Equal(history[0].UnsavedIn(before), []int{1}) {
		t.Errorf("the deletion saved %+v, want all but partition 1", history)
	}
	u, err := l.at("n3").Contents.RestoreChannel(ctx, "t", "c", false)
	if err != nil || !slices.Equal(u.Unsaved, []int{1}) || len(u.Partitions) != 2 {
		t.Errorf("%+v, %v", u, err)
	}
}

// An undo of a move of a deleted channel, on one that was created since, finished what was published in between.
func TestUndoOfADeletedChannelsMoveSkipsNothing(t *testing.T) {
	l := newLan(t, nil, "n1")
	ctx, b := t.Context(), l.at("n1")
	l.create("t", "n1")
	channel := func(name string) {
		if err := b.Directory.CreateChannel(ctx, "t", name, false); err != nil {
			t.Fatal(err)
		}
	}
	channel("other")
	channel("c")
	l.mustPut("t", 0, "before")
	if err := b.Contents.EmptyChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	l.mustPut("t", 0, "unfinished")
	if err := b.Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	channel("c")
	if _, err := b.Contents.UndoChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	for i, d := range l.subscribe("t", "c", 0).takeSome(2) {
		if want := []string{"before", "unfinished"}[i]; string(d.Body) != want {
			t.Errorf("got %q, want %q", d.Body, want)
		}
	}
}
