package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/internal/simtest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Limits for what happens after all faults have ended.
const (
	toForm    = 20 * time.Second
	toRecover = 60 * time.Second
	toDrain   = 30 * time.Second
)

// run plays one run: a cluster forms, nodes fail, all is healed, and the last checks are made.
func (w *world) run(seed uint64) {
	defer w.end()
	for _, m := range w.machines {
		m.start()
	}
	stop := make(chan struct{})
	idles := make(chan []idle, 1)
	go func() { idles <- w.createIdle(rand.New(rand.NewPCG(seed, 92)), stop) }()
	if !w.create() {
		close(stop)
		<-idles
		return
	}
	changed := make(chan []idle, 1)
	healed := make(chan struct{})
	go func() { changed <- w.operate(rand.New(rand.NewPCG(seed, 94)), healed) }()
	var publishers, consumers sync.WaitGroup
	for i := range w.plan.publishers * w.plan.partitions {
		publishers.Go(func() { w.publish(i, i%w.plan.partitions, rand.New(rand.NewPCG(seed, uint64(100+i))), stop) })
	}
	for p := 0; w.plan.repeats && p < w.plan.partitions; p++ {
		n := w.plan.publishers*w.plan.partitions + p
		publishers.Go(func() { w.repeat(n, p, rand.New(rand.NewPCG(seed, uint64(400+p))), stop) })
	}
	done := make(chan struct{})
	poisoned := w.newPoison()
	w.work = w.newWork()
	publishers.Go(func() { poisoned.publish(rand.New(rand.NewPCG(seed, 500)), stop) })
	consumers.Go(func() { poisoned.witness(rand.New(rand.NewPCG(seed, 502)), done) })
	consumers.Go(func() { poisoned.crash(rand.New(rand.NewPCG(seed, 503)), done) })
	consumers.Go(func() { poisoned.consume(rand.New(rand.NewPCG(seed, 501)), done) })
	w.work.start(seed, &publishers, &consumers, stop, done)
	bin := w.newTrashed()
	bin.start(seed, &publishers, &consumers, healed, stop, done)
	for i := range readWhole * w.plan.consumers {
		consumers.Go(func() {
			w.consume(i%readWhole, rand.New(rand.NewPCG(seed, uint64(200+i))), rand.New(rand.NewPCG(seed, uint64(300+i))), done)
		})
	}
	for end := time.Now().Add(w.plan.chaos); time.Now().Before(end) && !w.isWrong(); {
		time.Sleep(time.Duration(w.rnd.Int64N(int64(w.plan.pause))))
		w.fault()
		w.offline.remember()
		w.sameMetadata()
	}
	w.heal()
	close(healed)
	w.calm.Store(true)
	w.await(toRecover, "everybody is in sync", w.unsynced)
	empty := <-changed
	bin.await()
	w.await(toRecover, "nothing moves any more", w.unsynced)
	w.strobe()
	w.await(toRecover, "everybody is in sync after the clocks were set", w.unsynced)
	w.leadAgainOften(rand.New(rand.NewPCG(seed, 98)))
	w.rotLogs()
	w.await(toRecover, "what rotted is repaired", w.damaged)
	close(stop)
	publishers.Wait()
	w.await(toRecover, "every publish is settled", w.unsettled)
	w.draining.Store(true)
	w.await(toDrain, "everything is delivered", func() string { return w.undelivered(0, readWhole) })
	w.await(toDrain, "what no consumer finishes is a dead letter", poisoned.missing)
	w.await(toDrain, "what ends every consumer is a dead letter", poisoned.survivors)
	poisoned.redrive()
	bin.finale()
	if w.work != nil {
		w.work.finale(rand.New(rand.NewPCG(seed, 602)))
	}
	close(done)
	consumers.Wait()
	empty = append(empty, <-idles...)
	if w.isWrong() {
		return
	}
	empty = append(empty, w.createDraining())
	w.restartAll()
	served := map[string]bool{}
	w.await(toRecover, "idle topics take messages", func() string { return w.unserved(empty, served) })
	if w.work != nil {
		w.await(toRecover, "deferred jobs stay through a restart", w.work.misdeferred)
	}
	w.again(rand.New(rand.NewPCG(seed, 503)))
	w.readLate(rand.New(rand.NewPCG(seed, 200)))
	time.Sleep(3 * scrubEvery)
	w.await(toRecover, "what was harmed is repaired", w.damaged)
	if w.isWrong() {
		return
	}
	w.stopAll()
	w.compare()
}

// end kills the nodes that still run.
func (w *world) end() {
	for _, m := range w.machines {
		if l := m.alive(); l != nil {
			l.kill(vfs.Crash{KeepPercent: 100}, "is switched off")
		}
	}
	w.lives.Wait()
}

// create waits until the cluster has formed, and creates the topic and its channels.
func (w *world) create() bool {
	w.await(toForm, "the cluster has formed", func() string {
		for _, m := range w.machines {
			if m.running() == nil {
				return m.host + " does not serve"
			}
		}
		return ""
	})
	if w.isWrong() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b := w.machines[w.rnd.IntN(len(w.machines))].running().broker.Load()
	config := meta.TopicConfig{
		Partitions: w.plan.partitions, Replicas: 3, MinISR: 2, Sync: w.plan.sync, RetentionAge: 10_000 * time.Hour, // more than a clock is ever wrong by
	}
	if w.plan.repeats {
		config.DedupWindow = meta.MaxDedupWindow
	}
	if w.plan.lives {
		config.TTL = livesFor
	}
	_, err := b.Directory.CreateTopic(ctx, theTopic, config)
	for i, name := range channelNames {
		if err == nil {
			err = b.Directory.EnsureChannel(ctx, meta.CreateChannel{Topic: theTopic, Channel: name, Order: channelOrders[i]})
		}
	}
	if err != nil {
		w.wrong("create the topic: %v", err)
	}
	return err == nil
}

// await waits until missing names nothing any more.
func (w *world) await(most time.Duration, what string, missing func() string) {
	began := time.Now()
	for !w.isWrong() {
		text := missing()
		if text == "" {
			w.trace.Add("%s after %v", what, time.Since(began))
			return
		}
		if time.Since(began) > most {
			w.wrong("not within %v: %s: %s", most, what, text)
			w.mu.Lock()
			w.late = true
			w.mu.Unlock()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// fault causes one fault.
func (w *world) fault() {
	m, o := w.machines[w.rnd.IntN(len(w.machines))], w.machines[w.rnd.IntN(len(w.machines))]
	l := m.alive()
	switch k := w.rnd.IntN(100); {
	case l == nil && k < 80:
		if k < 30 {
			m.rotPositions()
		}
		m.start()
	case l == nil || k < 6: // nothing happens
	case k < 10:
		d := time.Duration(200+w.hangs.IntN(8000)) * time.Millisecond
		w.trace.Add("%s's disk hangs for %v", m.host, d)
		l.mount.Hang(d)
	case k < 15:
		m.setClock(w.rnd)
	case k < 25:
		l.kill(vfs.Crash{KeepPercent: 100}, "is killed")
	case k < 31:
		l.mount.Trap(w.rnd.IntN(40), func() { l.kill(vfs.Crash{KeepPercent: 100}, "is killed at a change of its disk") })
	case k < 40:
		w.cutPower(m, l)
	case k < 41 && w.plan.sync.Always():
		w.trace.Add("the power goes")
		for _, m := range w.machines {
			if l := m.alive(); l != nil {
				m.losePower(l, w.crash())
			}
		}
	case k < 46:
		w.trace.Add("%s is to stop", m.host)
		l.stop()
	case k < 48:
		m.mu.Lock()
		m.broken = true
		m.mu.Unlock()
		w.trace.Add("%s's disk breaks", m.host)
		w.lost.Add(1)
		l.mount.Break(syscall.EIO)
	case k < 52:
		d := time.Duration(500+w.rnd.IntN(2500)) * time.Millisecond
		w.trace.Add("%s's disk is full for %v", m.host, d)
		w.lost.Add(1)
		l.mount.Fill(true)
		time.AfterFunc(d, func() { l.mount.Fill(false) })
	case k < 60:
		w.cutLink(m, o)
	case k < 66:
		w.isolate(m)
	case k < 82:
		w.healNetwork()
	case k < 92:
		w.trace.Add("connections between %s and %s break", m.host, o.host)
		w.net.Break(m.host, o.host)
	default:
		n := w.rnd.IntN(100)
		link := peertest.Link{Delay: time.Duration(n) * time.Millisecond}
		if n%3 == 0 { // the link's rate is limited as well
			link.Rate = (1 + n) << 10
			o.lateUntil.Store(math.MaxInt64) // a message may wait behind others for longer than its timeout
		}
		w.trace.Add("%s to %s takes %v, %d bytes/s", m.host, o.host, link.Delay, link.Rate)
		w.net.SetLink(m.host, o.host, link)
	}
}

// isolate cuts all links of a machine.
func (w *world) isolate(m *machine) {
	w.trace.Add("%s is cut off", m.host)
	for _, o := range w.machines {
		w.cut(m, o)
		w.cut(o, m)
	}
}

// cutLink cuts the link between two machines in one direction or in both.
func (w *world) cutLink(m, o *machine) {
	both := w.rnd.IntN(2) == 0
	w.trace.Add("cut %s to %s, both ways %v", m.host, o.host, both)
	w.cut(m, o)
	if both {
		w.cut(o, m)
	}
}

func (w *world) cut(from, to *machine) {
	w.net.SetLink(from.host, to.host, peertest.Link{Cut: true})
	to.lateUntil.Store(math.MaxInt64)
}

func (w *world) healNetwork() {
	w.trace.Add("the network heals")
	for _, m := range w.machines {
		if m.mayHearLate() {
			m.lateUntil.Store(time.Now().Add(time.Second).UnixNano())
		}
		for _, o := range w.machines {
			w.net.SetLink(m.host, o.host, peertest.Link{Delay: time.Duration(w.rnd.IntN(1000)) * time.Microsecond})
		}
	}
}

// crash chooses what a power cut does to data that was not synced.
func (w *world) crash() vfs.Crash {
	return vfs.Crash{Rand: rand.New(rand.NewPCG(w.rnd.Uint64(), 1)), KeepPercent: w.rnd.IntN(100), TornPercent: w.rnd.IntN(30)}
}

// cutPower cuts a machine's power. If acknowledged messages may be in memory only, at most one copy
// at a time may be lost in this way.
func (w *world) cutPower(m *machine, l *life) {
	if !w.plan.sync.Always() {
		if time.Since(w.lastCut) < 3*time.Second || w.thin() {
			return
		}
		w.lastCut = time.Now()
		m.losePower(l, w.crash())
		return
	}
	c := w.crash()
	if w.rnd.IntN(2) == 0 {
		m.losePower(l, c)
		return
	}
	l.mount.Trap(w.rnd.IntN(40), func() { m.losePower(l, c) })
}

func (m *machine) losePower(l *life, c vfs.Crash) {
	m.w.lost.Add(1)
	m.mu.Lock()
	m.boot++
	m.mu.Unlock()
	for _, kind := range m.w.channels {
		for _, ch := range kind {
			ch.LosePower()
		}
	}
	l.kill(c, "loses power")
}

// thin reports whether a partition may have only one copy, now or soon. A leader that misses the
// other replicas may have proposed to continue without them, and no node has applied that yet. If
// the proposal is decided after the leader has lost power, the leader is the only replica in sync,
// and serves what it has left.
func (w *world) thin() bool {
	thin := true
	w.eachState(func(t *meta.Topic) {
		thin = slices.ContainsFunc(t.Partitions, func(p meta.Partition) bool { return !w.twoThere(p.ISR) })
	})
	return thin
}

// twoThere reports whether two of the nodes run, are not about to stop, and reach each other.
func (w *world) twoThere(nodes []meta.NodeID) bool {
	for i, m := range w.machines {
		for _, o := range w.machines[i+1:] {
			if m.stays(nodes) && o.stays(nodes) && !w.net.Link(m.host, o.host).Cut && !w.net.Link(o.host, m.host).Cut {
				return true
			}
		}
	}
	return false
}

// stays reports whether the machine's node is one of nodes, serves, and was not told to stop.
func (m *machine) stays(nodes []meta.NodeID) bool {
	l := m.running()
	return l != nil && !l.leaving.Load() && slices.Contains(nodes, meta.NodeID(m.host))
}

// newest returns the metadata of the process that has applied most of it, also if that process has
// ended, or nil if there is none.
func newest(lives []*life) (newest *meta.State) {
	for _, l := range lives {
		if node := l.cluster.Load(); node != nil {
			if state := node.Store().View(); newest == nil || state.Index() > newest.Index() {
				newest = state
			}
		}
	}
	return newest
}

// eachState calls f with the topic in the newest metadata of any node.
func (w *world) eachState(f func(*meta.Topic)) { w.eachTopic(theTopic, f) }

func (w *world) eachTopic(name string, f func(*meta.Topic)) {
	var lives []*life
	for _, m := range w.machines {
		if l := m.running(); l != nil {
			lives = append(lives, l)
		}
	}
	if state := newest(lives); state != nil && state.Topic(name) != nil {
		f(state.Topic(name))
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.trace.Add("everything heals")
	for _, m := range w.machines {
		m.mu.Lock()
		l, broken := m.life, m.broken
		m.mu.Unlock()
		if l != nil && broken {
			l.kill(vfs.Crash{KeepPercent: 100}, "gets a disk that works")
		} else if l != nil {
			l.mount.Trap(1<<30, func() {})
		}
	}
	w.healNetwork()
	for _, m := range w.machines { // nodes that should stop do so
		if l := m.alive(); l != nil && l.leaving.Load() {
			if l.broker.Load() == nil {
				l.kill(vfs.Crash{KeepPercent: 100}, "stops before it serves")
			}
			<-l.gone
		}
	}
}

// unsynced names a partition that does not have all its replicas in sync and a leader. It starts
// the nodes that are down.
func (w *world) unsynced() string {
	text := "no node serves"
	for _, m := range w.machines {
		m.start()
	}
	for _, m := range w.machines {
		if m.running() == nil {
			return m.host + " does not serve"
		}
	}
	w.sameMetadata()
	w.eachState(func(t *meta.Topic) {
		text = ""
		for i, p := range t.Partitions {
			if p.Leader == "" || len(p.ISR) < len(p.Replicas) || len(p.Suspects) > 0 || p.Moving() {
				text += fmt.Sprintf("partition %d led by %q at epoch %d, of %v in sync are %v; ", i, p.Leader, p.Epoch, p.Replicas, p.ISR)
			}
		}
	})
	return text
}

// unsettled says how many publishes have no answer.
func (w *world) unsettled() string {
	sum := 0
	for _, h := range w.histories {
		_, _, _, open := h.Counts()
		sum += open
	}
	if sum > 0 {
		return fmt.Sprint(sum, " are open")
	}
	return ""
}

// undelivered names acknowledged messages that the channels from first to end did not get.
func (w *world) undelivered(first, end int) string {
	for kind := first; kind < end; kind++ {
		for p, c := range w.channels[kind] {
			if n, first := c.Missing(); n > 0 {
				return fmt.Sprintf("channel %d of partition %d: %d are missing, %s", kind, p, n, first)
			}
		}
	}
	return ""
}

// sameMetadata checks that nodes that have applied the same entries have the same metadata.
func (w *world) sameMetadata() {
	type seen struct {
		host string
		text []byte
	}
	at := map[uint64]seen{}
	for _, m := range w.machines {
		l := m.running()
		if l == nil {
			continue
		}
		state := l.cluster.Load().Store().View()
		var text bytes.Buffer
		if err := state.Encode(&text); err != nil {
			w.wrong("%s: %v", m.host, err)
			return
		}
		before, known := at[state.Index()]
		if !known {
			at[state.Index()] = seen{m.host, text.Bytes()}
		} else if !bytes.Equal(before.text, text.Bytes()) {
			w.wrong("%s and %s have different metadata at index %d", before.host, m.host, state.Index())
		}
	}
}

// stopAll stops all nodes cleanly, one at a time.
func (w *world) stopAll() {
	for _, m := range w.machines {
		if l := m.alive(); l != nil {
			l.stop()
			<-l.gone
		}
	}
}

// compare reads the logs from the disks and compares them.
func (w *world) compare() {
	for i, h := range w.histories {
		var names []string
		var first string
		copies := 0
		for _, m := range w.machines {
			log, err := m.read(i)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				w.wrong("the log of %s, partition %d: %v", m.host, i, err)
				return
			}
			copies++
			if first == "" {
				names, first = log, m.host
			} else if !slices.Equal(names, log) {
				w.wrong("partition %d: %s holds %d messages, %s others: %d", i, first, len(names), m.host, len(log))
			}
		}
		if copies != 3 {
			w.wrong("partition %d has %d copies", i, copies)
		}
		for _, text := range h.Check(0, names) {
			w.wrong("partition %d: %s", i, text)
		}
		for c := range w.channels {
			for _, text := range w.channels[c][i].Check() {
				w.wrong("partition %d, channel %d: %s", i, c, text)
			}
		}
	}
}

// read returns the messages in a machine's log of a partition.
func (m *machine) read(partition int) ([]string, error) {
	topics := filepath.Join(m.dir, "topics")
	dirs, err := m.disk.ReadDir(topics)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if !strings.HasPrefix(dir, theTopic+".") {
			continue
		}
		path := filepath.Join(topics, dir, fmt.Sprint(partition))
		if _, err := m.disk.Stat(path); err != nil {
			return nil, err
		}
		log, rec, err := commitlog.Open(m.disk, path, commitlog.Options{FillBytes: -1, Alternating: m.w.plan.sync.Always()})
		if err != nil {
			return nil, err
		}
		if len(rec.Damaged)+len(rec.Cut) > 0 {
			return nil, fmt.Errorf("after a clean stop: %+v", rec)
		}
		defer log.Close()
		return names(log)
	}
	return nil, fs.ErrNotExist
}

func names(log *commitlog.Log) ([]string, error) {
	var out []string
	for from := log.Start(); from < log.End(); {
		raw, err := log.ReadRaw(from, 1<<16, nil)
		if err != nil {
			return nil, err
		}
		for len(raw) > 0 {
			b, err := commitlog.Decode(raw)
			if err != nil {
				return nil, err
			}
			records := b.Records(b.First())
			for range b.Count() {
				_, payload, _ := records.Next()
				m, err := record.Decode(payload)
				if err != nil {
					return nil, err
				}
				if m.Address != nil {
					out = append(out, simtest.Copy)
					continue
				}
				out = append(out, nameOf(m.Body))
			}
			from, raw = b.End(), raw[b.Size():]
		}
	}
	if log.Start() != seq.Offset(0) {
		return nil, fmt.Errorf("it starts at %d", log.Start())
	}
	return out, nil
}
