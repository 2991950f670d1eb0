package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// How many messages are published before and after the older state of the disk.
const (
	harmBefore = 150
	harmAfter  = 150
)

// harm damages one replica's files while all nodes are down. dir is the replica's directory; older
// is a copy of it from before the last messages.
type harm struct {
	name string
	do   func(st *stage, dir, older string) error
}

var harms = []harm{
	{"a bit of the newest segment changes", flipBit},
	{"the newest segment loses its end", cutSegment},
	{"the newest segment is gone", removeSegment},
	{"the directory is gone", func(_ *stage, dir, _ string) error { return os.RemoveAll(dir) }},
	{"the directory is as it was earlier", putBack},
}

// severalHarms damage the files of several replicas at once. dirs are their directories, older is a
// copy of the first that was made before the last messages. Each message stays intact in one of
// them.
var severalHarms = []struct {
	name string
	do   func(st *stage, dirs []string, older string) error
}{
	{"a bit changes in two copies, in different places", func(st *stage, dirs []string, _ string) error {
		return errors.Join(flipBitAt(st, dirs[0], 0.2), flipBitAt(st, dirs[1], 0.8))
	}},
	{"a bit changes in each of three copies, in different places", func(st *stage, dirs []string, _ string) error {
		return errors.Join(flipBitAt(st, dirs[0], 0.1), flipBitAt(st, dirs[1], 0.5), flipBitAt(st, dirs[2], 0.9))
	}},
	{"one directory is as it was earlier, and a bit changes in another", func(st *stage, dirs []string, older string) error {
		return errors.Join(putBack(st, dirs[0], older), flipBitAt(st, dirs[1], 0.3))
	}},
}

// playHarm kills all nodes at once and damages one copy or several, the leader's as well as
// followers', before they start again. Nothing is consumed before that: a message that was consumed
// already would not be missed.
func playHarm(st *stage) {
	rounds := 0
	play := func(what string, do func(dirs []string, older string) error) {
		for _, leads := range []bool{true, false} {
			rounds++
			steps.During(fmt.Sprintf("%s, the leader's first: %v", what, leads), func() {
				playHarmed(st, fmt.Sprintf("harm%d", rounds), what, leads, do)
			})
		}
	}
	for _, h := range harms {
		play(h.name, func(dirs []string, older string) error { return h.do(st, dirs[0], older) })
	}
	for _, h := range severalHarms {
		play(h.name, func(dirs []string, older string) error { return h.do(st, dirs, older) })
	}
	st.say = append(st.say, fmt.Sprintf("damaged copies %d times, %d messages each time", rounds, harmBefore+harmAfter))
}

func playHarmed(st *stage, name, what string, leads bool, do func(dirs []string, older string) error) {
	steps.Must(st.make(name, map[string]any{"partitions": 1, "replicas": 3}, "c"))
	victim := steps.Need(st.leader(name, 0))
	leader := victim
	if !leads {
		victim = st.other(leader)
	}
	steps.Must(publishAll(leader, name, "before", harmBefore))
	var dirs []string
	for _, n := range append([]*nodes.Node{victim}, others(st, victim)...) {
		dirs = append(dirs, steps.Need(replicaDir(n, name)))
	}
	older := filepath.Join(st.dir, name+"-older")
	steps.Must(os.CopyFS(older, os.DirFS(dirs[0])))
	steps.Must(errors.Join(publishAll(leader, name, "after", harmAfter), st.kill(st.c.Nodes...)))
	st.note("%s: %s", victim.ID, what)
	steps.Must(do(dirs, older))
	order := slices.Clone(st.c.Nodes)
	st.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	steps.Must(errors.Join(st.start(order...), st.whole(name)))
	steps.Must(errors.Join(atLeast(st, name, map[string]int{"before": harmBefore, "after": harmAfter}), st.identical(name)))
}

// atLeast consumes all messages of a topic. It demands every message of each kind, perhaps more
// than once, since the leader may change meanwhile, and no other message.
func atLeast(st *stage, name string, want map[string]int) error {
	missing := map[string]bool{}
	for what, n := range want {
		for i := range n {
			missing[fmt.Sprintf("%s %d", what, i)] = true
		}
	}
	repeated, owed := 0, len(missing)
	err := consumeAll(st, name, func() bool { return owed > 0 }, func(body string) error {
		open, known := missing[body]
		if !known {
			return fmt.Errorf("%q was not published", body)
		}
		if open {
			owed--
		} else {
			repeated++
		}
		missing[body] = false
		return nil
	})
	if err != nil {
		return err
	}
	for body, open := range missing {
		if !open {
			delete(missing, body)
		}
	}
	if n := len(missing); n > 0 {
		return fmt.Errorf("%d acknowledged messages are lost, for example %v", n, slices.Sorted(maps.Keys(missing))[:min(n, 5)])
	}
	st.note("all delivered, %d redelivered", repeated)
	return nil
}

// replicaDir returns the directory of a node's replica of partition 0 of a topic.
func replicaDir(n *nodes.Node, name string) (string, error) {
	found, err := filepath.Glob(filepath.Join(n.Data(), "topics", name+".*", "0"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s keeps %s in %v, %w", n.ID, name, found, err)
	}
	return found[0], nil
}

// newestSegment returns the last segment of a log and its written part, which ends before the
// preallocated space.
func newestSegment(dir string) (path string, written []byte, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(found) == 0 {
		return "", nil, fmt.Errorf("no segment in %s: %w", dir, err)
	}
	path = slices.Max(found)
	written, err = os.ReadFile(path)
	for len(written) > 0 && written[len(written)-1] == 0 {
		written = written[:len(written)-1]
	}
	return path, written, err
}

// segmentHead is the size of a segment's header.
const segmentHead = 64

// somewhere returns a random position after a segment's header.
func somewhere(st *stage, written []byte) (int64, error) {
	if len(written) <= segmentHead {
		return 0, fmt.Errorf("void: a segment of %d bytes", len(written))
	}
	return segmentHead + st.rng.Int64N(int64(len(written)-segmentHead)), nil
}

func flipBit(st *stage, dir, _ string) error {
	path, written, err := newestSegment(dir)
	if err != nil {
		return err
	}
	at, err := somewhere(st, written)
	if err != nil {
		return err
	}
	return flip(st, path, written, at)
}

// flipBitAt changes a bit of the newest segment, at a fraction of its length.
func flipBitAt(st *stage, dir string, part float64) error {
	path, written, err := newestSegment(dir)
	if err != nil {
		return err
	}
	return flip(st, path, written, segmentHead+int64(part*float64(len(written)-segmentHead)))
}

func flip(st *stage, path string, written []byte, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{written[at] ^ 1<<st.rng.IntN(8)}, at)
	st.note("%s: byte %d of %d", path, at, len(written))
	return errors.Join(err, f.Close())
}

func cutSegment(st *stage, dir, _ string) error {
	path, written, err := newestSegment(dir)
	if err != nil {
		return err
	}
	at, err := somewhere(st, written)
	if err != nil {
		return err
	}
	st.note("at byte %d of %d", at, len(written))
	return os.Truncate(path, at)
}

func removeSegment(_ *stage, dir, _ string) error {
	path, _, err := newestSegment(dir)
	if err != nil {
		return err
	}
	return os.Remove(path)
}

func putBack(_ *stage, dir, older string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.CopyFS(dir, os.DirFS(older))
}
