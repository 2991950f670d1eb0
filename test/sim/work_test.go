package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/deferral"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/trace"
)

// The topic whose messages have headers, tags and delays, and how clients use it.
const (
	workTopic = "work"
	workEvery = 150 * time.Millisecond // at most, between two publishes
	workPause = 300 * time.Millisecond // at most, between two actions of an operator
	workTrust = 50 * time.Millisecond  // how long after the answer to its publish an operator waits for a message
	// farDelay is longer than a run, and longer than any clock is wrong by.
	farDelay = 480 * time.Hour
)

// The channels of the topic.
const (
	evenChannel    = "even"    // a filter chooses the messages with even numbers
	alteredChannel = "altered" // its filter is altered between the even numbers and those that are divisible by three
	tagsChannel    = "tags"    // each consumer asks for one tag
	laterChannel   = "later"   // an operator cancels and advances deferred messages
	stillChannel   = "still"   // it has no consumer
)

// workFilters are the filters of the channels.
var workFilters = [...]string{"header.n % 2 == 0", "header.n % 3 == 0"}

// workReaders are the readers of the channels, with the tags that they ask for.
var workReaders = [...]struct{ channel, tag string }{
	{evenChannel, ""}, {alteredChannel, ""}, {tagsChannel, "a"}, {tagsChannel, "b"}, {laterChannel, ""},
}

// job is a message of the topic.
type job struct {
	number   int
	far      bool // deferred for farDelay
	acked    time.Time
	offset   seq.Offset    // the offset in its acknowledgement
	refused  bool          // it was not stored
	verb     deferral.Verb // what an operator has tried to do with it
	done     bool          // the operator got the answer that it is done
	losses   int64         // how often positions had been lost by then
	got      map[string]bool
	finishes map[string]int // tried, by channel
}

// tag returns the tag of a job.
func (j *job) tag() string { return string("ab"[j.number/2%2]) }

// mayCome reports whether a channel may ever deliver the job, apart from its delay.
func (j *job) mayCome(name string) bool {
	switch name {
	case evenChannel:
		return j.number%2 == 0
	case alteredChannel:
		return j.number%2 == 0 || j.number%3 == 0
	}
	return true
}

// mustCome reports whether a channel has to deliver the job, if its delay is not far.
func (j *job) mustCome(name string) bool {
	switch {
	case j.acked.IsZero():
		return false
	case name == alteredChannel:
		return j.number%6 == 0
	}
	return j.mayCome(name)
}

// work is the topic, its clients and an operator.
type work struct {
	w *world

	mu   sync.Mutex // guards what follows
	jobs []*job     // by number
}

// newWork creates the topic, or returns nil if the plan has none.
func (w *world) newWork() *work {
	if !w.plan.work {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b := w.machines[0].running().broker.Load()
	_, err := b.Directory.CreateTopic(ctx, workTopic, meta.TopicConfig{
		Replicas: 3, MinISR: 2, Sync: w.plan.sync, Trace: "on", RetentionAge: 10_000 * time.Hour,
	})
	for name, filter := range map[string]string{evenChannel: workFilters[0], alteredChannel: workFilters[0], tagsChannel: "", laterChannel: "", stillChannel: ""} {
		if err == nil {
			err = b.Contents.Policies().CreateChannel(ctx, meta.CreateChannel{Topic: workTopic, Channel: name, Filter: filter})
		}
	}
	if err != nil {
		w.wrong("create the topic %s: %v", workTopic, err)
	}
	return &work{w: w}
}

// start starts the clients and the operator.
func (x *work) start(seed uint64, publishers, consumers *sync.WaitGroup, stop, done <-chan struct{}) {
	if x == nil {
		return
	}
	publishers.Go(func() { x.publish(rand.New(rand.NewPCG(seed, 600)), stop) })
	publishers.Go(func() { x.operate(rand.New(rand.NewPCG(seed, 601)), stop) })
	for i := range workReaders {
		consumers.Go(func() { x.consume(i, rand.New(rand.NewPCG(seed, uint64(610+i))), done) })
	}
}

// someone returns a node that serves, or nil.
func (x *work) someone(rnd *rand.Rand) *life {
	return x.w.machines[rnd.IntN(len(x.w.machines))].running()
}

// publish publishes messages at any node.
func (x *work) publish(rnd *rand.Rand, stop <-chan struct{}) {
	for {
		every := workEvery
		if x.w.calm.Load() {
			every = calmEvery
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(every)))):
		}
		if l := x.someone(rnd); l != nil {
			x.send(l, rnd)
		}
	}
}

// send publishes one message. Some messages have a delay.
func (x *work) send(l *life, rnd *rand.Rand) {
	x.mu.Lock()
	j := &job{number: len(x.jobs), far: rnd.IntN(4) == 0, got: map[string]bool{}, finishes: map[string]int{}}
	x.jobs = append(x.jobs, j)
	x.mu.Unlock()
	name := fmt.Sprint(j.number)
	delay := farDelay
	if !j.far {
		delay = x.w.clocks.delay(workTopic+name, 3, rnd)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.broker.Load().Router.Publish(ctx, publish.Request{
		Topic: workTopic, Partition: 0,
		Messages: []topic.Message{{Body: []byte(name), Header: fmt.Appendf(nil, `{"n":%s,"##client_dispatch_tag":%q}`, name, j.tag()), Delay: delay}},
		Done: func(r topic.Receipt) {
			l.mu.RLock()
			defer l.mu.RUnlock()
			x.mu.Lock()
			defer x.mu.Unlock()
			switch {
			case l.dead:
			case r.Err == nil:
				j.acked, j.offset = time.Now(), r.First
			case fate.Of(r.Err) == fate.Refused:
				j.refused = true
			}
		},
	})
}

// operate alters a filter, and cancels and advances deferred messages, at any node.
func (x *work) operate(rnd *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(workPause)))):
		}
		l := x.someone(rnd)
		if l == nil {
			continue
		}
		if rnd.IntN(3) == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), toCreate)
			filter := workFilters[rnd.IntN(len(workFilters))]
			err := l.broker.Load().Contents.Policies().AlterChannel(ctx, meta.AlterChannel{Topic: workTopic, Channel: alteredChannel, Filter: &filter})
			x.w.trace.Add("alter the filter to %s: %v", filter, err)
			cancel()
		} else if j := x.candidate(rnd); j != nil {
			x.reschedule(l, j)
		}
	}
}

// candidate returns a job that is to be cancelled or advanced and was not yet, or nil. It leaves
// one of three alone.
func (x *work) candidate(rnd *rand.Rand) *job {
	x.mu.Lock()
	defer x.mu.Unlock()
	var some []*job
	for _, j := range x.jobs {
		if j.far && j.number%3 > 0 && !j.done && !j.acked.IsZero() && time.Since(j.acked) > workTrust {
			some = append(some, j)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[rnd.IntN(len(some))]
}

// reschedule cancels or advances a job.
func (x *work) reschedule(l *life, j *job) {
	x.mu.Lock()
	first, lost := j.verb == "", x.w.lost.Load()
	j.verb = deferral.Cancel
	if j.number%3 == 1 {
		j.verb = deferral.Advance
	}
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), toCreate)
	defer cancel()
	all, err := operate.Deferrals{Node: l.broker.Load().Node}.Reschedule(ctx, deferral.Change{
		Topic: workTopic, Channel: laterChannel, Verb: j.verb, Named: map[int][]seq.Offset{0: {j.offset}},
	})
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.dead {
		return
	}
	x.w.trace.Add("%s %d, deferred at %d: %+v, %v", j.verb, j.number, j.offset, all, err)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err == nil && all[0].Count == 1:
		j.done, j.losses = true, lost
	case err == nil && first && x.w.lost.Load() == 0 && !x.w.plan.moves:
		x.w.wrong("job %d is deferred, and %s does not find it at %d", j.number, j.verb, j.offset)
	case err != nil && first && fate.Of(err) == fate.Refused:
		j.verb = "" // nothing was done
	}
}

// consume reads a channel, at any node.
func (x *work) consume(reader int, rnd *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(50 * time.Millisecond)))):
		}
		if l := x.someone(rnd); l != nil {
			at := workReaders[reader]
			e := errand{w: x.w, topic: workTopic, channel: at.channel, tag: at.tag, stop: stop}
			e.run(l, func(d *topic.Delivery) { x.delivered(l, at.channel, at.tag, d) }, func(s answers, id seq.MessageID, name string) {
				if !x.w.draining.Load() && rnd.IntN(10) == 0 {
					_ = s.Requeue(id, time.Duration(rnd.IntN(2))*20*time.Millisecond)
					return
				}
				x.finishing(at.channel, name)
				_ = s.Finish(id)
			})
		}
	}
}

// delivered notes a delivery if the process is still alive.
func (x *work) delivered(l *life, name, tag string, d *topic.Delivery) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.dead {
		return
	}
	early := x.w.clocks.early(workTopic + string(d.Body))
	x.mu.Lock()
	defer x.mu.Unlock()
	j := x.jobLocked(string(d.Body))
	switch {
	case j == nil:
		x.w.wrong("job %q was delivered, and was not published", d.Body)
		return
	case !j.mayCome(name):
		x.w.wrong("job %d was delivered to %s, whose filter does not choose it", j.number, name)
	case tag != "" && tag != j.tag():
		x.w.wrong("job %d, of tag %s, was delivered to a consumer that asks for %s", j.number, j.tag(), tag)
	case j.far && (name != laterChannel || j.verb != deferral.Advance && j.verb != deferral.Cancel):
		x.w.wrong("job %d was delivered to %s, %v before it is due", j.number, name, farDelay)
	case j.far && j.verb == deferral.Cancel:
		x.w.wrong("job %d was delivered, though it was cancelled and not changed otherwise", j.number)
	case early > 0:
		x.w.wrong("job %d was delivered to %s %v before its delay had passed", j.number, name, early)
	}
	j.got[name] = true
}

// jobLocked returns the job with a name, or nil.
func (x *work) jobLocked(name string) *job {
	n := -1
	if _, err := fmt.Sscan(name, &n); err != nil || n < 0 || n >= len(x.jobs) {
		return nil
	}
	return x.jobs[n]
}

// finishing notes that a consumer is about to finish a job.
func (x *work) finishing(name, body string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if j := x.jobLocked(body); j != nil {
		j.finishes[name]++
	}
}

// mustComeLocked reports whether a channel has to deliver a job. A job with a far delay is
// delivered where it was advanced, but it may be deferred again if positions were lost since.
func (x *work) mustComeLocked(j *job, name string) bool {
	if !j.far {
		return j.mustCome(name)
	}
	return !j.acked.IsZero() && name == laterChannel && j.verb == deferral.Advance && j.done && j.losses == x.w.lost.Load()
}

// missing names a job that a channel has to deliver and has not.
func (x *work) missing() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, at := range workReaders {
		for _, j := range x.jobs {
			if x.mustComeLocked(j, at.channel) && !j.got[at.channel] {
				return fmt.Sprintf("job %d, acknowledged at %d, was not delivered to %s: %s, done %v", j.number, j.offset, at.channel, j.verb, j.done)
			}
		}
	}
	return ""
}

// misdeferred names a channel whose deferred messages are not the jobs that should be deferred.
func (x *work) misdeferred() string {
	for _, name := range []string{evenChannel, alteredChannel, tagsChannel, laterChannel, stillChannel} {
		c := x.channel(name)
		if c == nil {
			return "the topic has no leader"
		}
		got := int(c.Stats().Counts.Deferred)
		if least, most := x.deferred(name); got < least || got > most {
			return fmt.Sprintf("%s has %d jobs deferred, want %d to %d", name, got, least, most)
		}
	}
	return x.undone()
}

// undone names a job that is still deferred, though it was cancelled or advanced.
func (x *work) undone() string {
	c := x.channel(laterChannel)
	if c == nil || x.w.plan.moves {
		return "" // copies have other offsets
	}
	deferred := map[seq.Offset]bool{}
	c.Look(func(v channel.View) {
		for _, o := range v.Deferrals().In(channel.Window{}) {
			deferred[o] = true
		}
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, j := range x.jobs {
		if j.done && j.losses == x.w.lost.Load() && deferred[j.offset] {
			return fmt.Sprintf("job %d is deferred at %d, though %s was confirmed", j.number, j.offset, j.verb)
		}
	}
	return ""
}

// channel returns a channel at its leader, or nil.
func (x *work) channel(name string) *topic.Channel {
	for _, m := range x.w.machines {
		l := m.running()
		if l == nil {
			continue
		}
		if h := l.broker.Load().Host.Lookup(workTopic); h != nil && h.Led(0) != nil {
			return h.Led(0).Part.Channel(name)
		}
	}
	return nil
}

// deferred returns how many jobs are deferred in a channel, at least and at most. If positions were
// lost, a cancelled job may be deferred again, and the leader may not know of a deferred job that
// no consumer has read.
func (x *work) deferred(name string) (least, most int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, j := range x.jobs {
		if !j.far || j.refused {
			continue
		}
		sure, open := !j.acked.IsZero(), true
		if name == laterChannel && j.verb != "" {
			sure, open = false, !j.done || j.losses < x.w.lost.Load()
		}
		if sure && (name != stillChannel || x.w.lost.Load() == 0) {
			least++
		}
		if open {
			most++
		}
	}
	return least, most
}

// finale publishes some messages while nothing fails. It checks that their traces tell what
// happened to them, and that the traces of all other messages tell nothing that did not happen.
func (x *work) finale(rnd *rand.Rand) {
	x.mu.Lock()
	began := len(x.jobs)
	x.mu.Unlock()
	for range 6 {
		if l := x.someone(rnd); l != nil {
			x.send(l, rnd)
		}
	}
	x.w.await(toDrain, "jobs with filters, tags and delays come", x.missing)
	x.w.await(toDrain, "deferred jobs stay", x.misdeferred)
	x.w.await(toDrain, "what happened last to traced jobs is known", func() string { return x.contradicted(began, true) })
	if text := x.contradicted(max(0, began-trace.MaxFound/2), false); text != "" {
		x.w.wrong("%s", text)
	}
}

// contradicted names what the traces of the jobs from a number on tell that did not happen. With
// whole it also names what they do not tell that did happen.
func (x *work) contradicted(from int, whole bool) string {
	l := x.w.machines[0].running()
	if l == nil {
		return "no node can be asked"
	}
	t := l.cluster.Load().Store().Topic(workTopic)
	x.mu.Lock()
	jobs := map[seq.MessageID]*job{}
	q := trace.Query{}
	for _, j := range x.jobs[from:] {
		if !j.acked.IsZero() && len(q.Messages) < trace.MaxFound/2 {
			id := seq.NewMessageID(0, j.offset)
			jobs[id] = j
			q.Messages = append(q.Messages, trace.Message{Incarnation: uint64(t.Incarnation), ID: id})
		}
	}
	x.mu.Unlock()
	if len(jobs) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), toCreate)
	defer cancel()
	found, err := operate.Traces{Node: l.broker.Load().Node}.Trace(ctx, q)
	if err != nil {
		return err.Error()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, life := range found.Lives {
		j := jobs[life.Message.ID]
		delete(jobs, life.Message.ID)
		if j == nil {
			continue // a copy that was requested together with it
		}
		ends := map[string]int{}
		for _, e := range life.Events {
			if e.What == trace.Finished && e.Note == "" {
				ends[e.Channel]++
			}
			if text := j.denies(e.Event, ends[e.Channel]); text != "" {
				return text
			}
		}
		if whole {
			if text := j.lacks(life); text != "" {
				return text
			}
		}
	}
	if whole && len(jobs) > 0 {
		return fmt.Sprintf("of %d jobs nothing was traced", len(jobs))
	}
	return ""
}

// denies returns why an event of the job's trace cannot have happened, or "". ends is how many
// events end the job in the channel.
func (j *job) denies(e trace.Event, ends int) string {
	switch {
	case e.What == trace.Delivered && (!j.mayCome(e.Channel) || j.far && (e.Channel != laterChannel || j.verb != deferral.Advance)),
		ends > j.finishes[e.Channel],
		e.Channel == stillChannel && e.What != trace.Deferred,
		j.far && e.What == trace.Finished && e.Note != "" && j.verb == "":
		return fmt.Sprintf("the trace of job %d (%+v) tells %v in %q, %q", j.number, j, e.What, e.Channel, e.Note)
	}
	return ""
}

// lacks names what happened to the job while nothing failed and its trace does not tell.
func (j *job) lacks(l trace.Life) string {
	has := func(w trace.What, name string) bool {
		return slices.ContainsFunc(l.Events, func(e trace.Noted) bool { return e.What == w && e.Channel == name })
	}
	if !has(trace.Published, "") || !has(trace.Committed, "") {
		return fmt.Sprintf("job %d: no publish: %+v", j.number, l.Events)
	}
	for _, at := range workReaders {
		if name := at.channel; !j.far && j.mustCome(name) && (!has(trace.Delivered, name) || !has(trace.Finished, name)) {
			return fmt.Sprintf("job %d: no delivery, or no end, in %s: %+v", j.number, name, l.Events)
		}
		if j.far && !has(trace.Deferred, "") {
			return fmt.Sprintf("job %d: not deferred: %+v", j.number, l.Events)
		}
	}
	return ""
}

// traces opens the trace store of a process, or returns nil if the plan traces nothing.
func (l *life) traces(ctx context.Context) *trace.Store {
	if !l.w.plan.work {
		return nil
	}
	s := trace.Open(trace.Options{FS: l.mount, Dir: filepath.Join(l.m.dir, "trace"), Bytes: trace.MinBytes})
	go s.Run(ctx)
	return s
}
