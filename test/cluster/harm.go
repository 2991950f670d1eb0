package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/brokerd/brokerd/test/nodes"
)

// How many messages are published before and after the older state of the disk
// that a harm may put back.
const (
	harmBefore = 150
	harmAfter  = 150
)

// harm is something that happens to one replica's files while all nodes are down.
// dir is the replica's directory, older a copy of it from before the last messages.
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

// playHarm kills all nodes at once and harms one copy, the leader's as well as a
// follower's, before they start again. Nothing is consumed before that: what was
// consumed already would not be missed.
func playHarm(st *stage) error {
	rounds := 0
	for _, h := range harms {
		for _, leads := range []bool{true, false} {
			rounds++
			if err := playHarmed(st, fmt.Sprintf("harm%d", rounds), h, leads); err != nil {
				return fmt.Errorf("%s, of the leader: %v: %w", h.name, leads, err)
			}
		}
	}
	st.say = append(st.say, fmt.Sprintf("%d harmed copies, %d messages each time", rounds, harmBefore+harmAfter))
	return nil
}

func playHarmed(st *stage, name string, h harm, leads bool) error {
	if err := st.make(name, map[string]any{"partitions": 1, "replicas": 3}); err != nil {
		return err
	}
	if err := st.c.CreateChannel(st.ctx, name, "c", false); err != nil {
		return err
	}
	victim, err := st.leader(name, 0)
	if err != nil {
		return err
	}
	leader := victim
	if !leads {
		victim = st.other(leader)
	}
	if err := publishAll(leader, name, "before", harmBefore); err != nil {
		return err
	}
	dir, err := replicaDir(victim, name)
	if err != nil {
		return err
	}
	older := filepath.Join(st.dir, name+"-older")
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		return err
	}
	if err := publishAll(leader, name, "after", harmAfter); err != nil {
		return err
	}
	if err := st.kill(st.c.Nodes...); err != nil {
		return err
	}
	st.note("%s: %s", victim.ID, h.name)
	if err := h.do(st, dir, older); err != nil {
		return err
	}
	order := slices.Clone(st.c.Nodes)
	st.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	if err := st.start(order...); err != nil {
		return err
	}
	if err := st.whole(name); err != nil {
		return err
	}
	return errors.Join(atLeast(st, name, map[string]int{"before": harmBefore, "after": harmAfter}), st.identical(name))
}

// atLeast consumes all that a topic has: every message of each kind, perhaps more
// than once, since the leader may change on the way, and nothing else.
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
		return fmt.Errorf("%d acknowledged messages are lost, among them %v", n, slices.Sorted(maps.Keys(missing))[:min(n, 5)])
	}
	st.note("all came, %d again", repeated)
	return nil
}

// replicaDir is where a node keeps its copy of partition 0 of a topic.
func replicaDir(n *nodes.Node, name string) (string, error) {
	found, err := filepath.Glob(filepath.Join(n.Data(), "topics", name+".*", "0"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s keeps %s in %v, %w", n.ID, name, found, err)
	}
	return found[0], nil
}

// newestSegment returns the last segment of a log, and what is written of it, which
// ends before the room that was set aside.
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

// somewhere returns a random position behind the header of a segment.
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
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{written[at] ^ 1<<st.rng.IntN(8)}, at)
	st.note("byte %d of %d", at, len(written))
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
