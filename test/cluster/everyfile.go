package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// How many messages are published before and after the copy of the disk to which damage may restore
// a file, and how many kinds of damage a short run uses.
const (
	woundBefore = 20
	woundAfter  = 20
	woundSample = 4
)

// The topic whose files are damaged, and one that the damage must not affect.
const (
	woundTopic = "wounded"
	bystander  = "bystander"
)

// woundFill is how many messages fill three segments of a megabyte.
const woundFill = 80

func fillBody() string { return strings.Repeat("x", 40<<10) }

// wound is damage to one file. deal returns false if the file has nothing to damage.
type wound struct {
	name string
	deal func(file, older string) (bool, error)
}

// aDirectory is the name of the damage that makes a file unreadable: a directory replaces it.
const aDirectory = "a directory in its place"

var wounds = []wound{
	{"a bit at the start", flipAt(func(int) int { return 0 })},
	{"a bit in the middle", flipAt(func(n int) int { return n / 2 })},
	{"a bit at the end", flipAt(func(n int) int { return n - 1 })},
	{"empty", func(file, _ string) (bool, error) { return changed(file, func([]byte) []byte { return nil }) }},
	{"cut by a few bytes", func(file, _ string) (bool, error) {
		return changed(file, func(all []byte) []byte { return all[:max(writtenEnd(all)-3, 0)] })
	}},
	{"removed", func(file, _ string) (bool, error) { return true, os.Remove(file) }},
	{"an older copy", putBackFile},
	{"garbage behind the end", func(file, _ string) (bool, error) {
		return changed(file, func(all []byte) []byte { return append(all, "no part of this file, whatever it is"...) })
	}},
	{aDirectory, func(file, _ string) (bool, error) { return true, errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }},
}

// kind is the files that a pattern matches, and whether a wound to them may keep a node from
// starting. If it may, the node's error names the file. Otherwise the node repairs the damage by
// itself.
type kind struct {
	pattern string // of the path below the data directory
	refuses bool
}

// kinds are all files that a node stores. A file of no kind fails the test: a change that stores a
// new file has to state here what happens to a node if the file is damaged.
var kinds = []kind{
	{"LOCK", true},
	{"LOCK.holder", true},
	{"clean-shutdown", true},
	{"first-administrator", false}, // each start writes it again
	{"unregistered", true},
	{"cluster", true},
	{"disk", true},
	{"meta/identity.json", true},
	{"meta/raft.db", true},
	{"meta/reserve", true},
	{"meta/snapshots/*/*", true},
	{"redo/journal-?", true},
	{"replicas/*", false},
	{"scrubbed", false},
	{"topics/*/*/*.log", false},
	{"topics/*/*/*.index", false},
	{"topics/*/*/checkpoint", false},
	{"topics/*/*/committed", false},
	{"topics/*/*/outdated", false},
	{"topics/*/*/positioned", false},
	{"topics/*/*/positions.?", false},
	{"topics/*/*/replica", false},
	{"topics/*/*/suspect", false},
}

func kindOf(file string) (kind, error) {
	for _, k := range kinds {
		if ok, err := path.Match(k.pattern, file); ok || err != nil {
			return k, err
		}
	}
	return kind{}, fmt.Errorf("%s is of no known kind of file: state in test/cluster what damage to it may cause", file)
}

// injury is a wound to one file.
type injury struct {
	kind
	wound
	file string // below the data directory
}

// injuries returns all kinds of damage to the oldest and the newest file of each kind below a data
// directory; of the topics' files, those of one topic.
func injuries(data, topic string) (all []injury, err error) {
	files := map[kind][]string{}
	err = filepath.WalkDir(data, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := filepath.Rel(data, p)
		if err != nil {
			return err
		}
		k, err := kindOf(filepath.ToSlash(file))
		if of, below := strings.CutPrefix(file, "topics/"); !below || strings.HasPrefix(of, topic+".") {
			files[k] = append(files[k], file)
		}
		return err
	})
	for _, k := range kinds {
		if found := files[k]; len(found) > 0 {
			for _, file := range slices.Compact([]string{slices.Min(found), slices.Max(found)}) {
				for _, w := range wounds {
					if w.name == aDirectory && !k.refuses {
						continue // the node tries the copy again until an operator removes it: docs/reliability.md
					}
					all = append(all, injury{k, w, file})
				}
			}
		}
	}
	return all, err
}

// writtenEnd returns where the written part of a file ends, before the preallocated space.
func writtenEnd(all []byte) int { return len(bytes.TrimRight(all, "\x00")) }

// changed replaces the content of a file. It returns false if the content stays the same.
func changed(file string, change func([]byte) []byte) (bool, error) {
	all, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	text := change(bytes.Clone(all))
	if bytes.Equal(text, all) {
		return false, nil
	}
	return true, os.WriteFile(file, text, 0o600)
}

func flipAt(where func(written int) int) func(file, _ string) (bool, error) {
	return func(file, _ string) (bool, error) {
		return changed(file, func(all []byte) []byte {
			if n := writtenEnd(all); n > 0 {
				all[where(n)] ^= 4
			}
			return all
		})
	}
}

func putBackFile(file, older string) (bool, error) {
	text, err := os.ReadFile(older)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return changed(file, func([]byte) []byte { return text })
}

// playEveryFile kills one of three nodes, damages one file on its disk and starts it again. It does
// so with a few of all wounds. Nothing may be lost.
func playEveryFile(st *stage) { st.everyFile(woundSample) }

// playAllFiles does the same with every wound to every kind of file.
func playAllFiles(st *stage) { st.everyFile(math.MaxInt) }

func (st *stage) everyFile(most int) {
	for _, name := range []string{woundTopic, bystander} {
		steps.Must(st.make(name, map[string]any{"partitions": 1, "replicas": 3}, "c"))
	}
	want := map[string]map[string]int{woundTopic: {fillBody(): woundFill}, bystander: {"aside": woundBefore}}
	steps.Must(errors.Join(publishAll(st.c.Nodes[0], bystander, "aside", woundBefore), publishAll(st.c.Nodes[0], woundTopic, fillBody(), woundFill)))
	all := steps.Need(injuries(st.c.Nodes[0].Data(), woundTopic))
	st.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	dealt, turnedAway := 0, 0
	for i, in := range all {
		if dealt == most {
			break
		}
		what := fmt.Sprintf("round%d", i)
		steps.During(in.file+", "+in.name, func() {
			hurt, away := st.injure(in, what)
			if hurt {
				dealt++
			}
			if away {
				turnedAway++
			}
		})
		want[bystander][what] = 1
		want[woundTopic][what+" before"], want[woundTopic][what+" after"] = woundBefore, woundAfter
	}
	if dealt == 0 {
		steps.Fail("void: no file was damaged")
	}
	st.say = append(st.say, fmt.Sprintf("%d files damaged, %d starts refused", dealt, turnedAway))
	steps.Must(errors.Join(atLeast(st, woundTopic, want[woundTopic]), atLeast(st, bystander, want[bystander])))
}

// injure damages a file of one node that is down. It publishes messages before the file is copied,
// between the copy and the end of the node, and afterwards. The node is repaired when injure
// returns. It returns whether there was something to damage, and whether the node refused to start
// and was given an empty disk, as its error demands.
func (st *stage) injure(in injury, what string) (hurt, away bool) {
	victim := st.c.Nodes[st.rng.IntN(len(st.c.Nodes))]
	well := st.other(victim)
	file, older := filepath.Join(victim.Data(), in.file), filepath.Join(st.dir, "older")
	if text, err := os.ReadFile(file); err == nil {
		steps.Must(os.WriteFile(older, text, 0o600))
	}
	steps.Must(publishAll(well, woundTopic, what+" before", woundBefore))
	steps.Must(st.kill(victim))
	if _, err := os.Stat(file); err == nil {
		hurt = steps.Need(in.deal(file, older))
		st.note("%s, %s: %s", victim.ID, in.file, in.name)
	}
	steps.Must(publishAll(well, bystander, what, 1))
	away = steps.Need(st.startHurt(victim, in))
	steps.Must(publishAll(well, woundTopic, what+" after", woundAfter))
	steps.Must(errors.Join(st.whole(woundTopic), st.whole(bystander), st.identical(woundTopic), st.identical(bystander)))
	return hurt, away
}

// startHurt starts a node with a damaged file.
func (st *stage) startHurt(n *nodes.Node, in injury) (away bool, err error) {
	log, err := os.Stat(n.Log())
	if err != nil {
		return false, err
	}
	err = st.start(n)
	select {
	case <-n.Exited():
	default:
		return false, err
	}
	if n.Crashed() || !in.refuses {
		return true, err
	}
	said, err := os.ReadFile(n.Log())
	if err != nil {
		return true, err
	}
	if last := string(said[log.Size():]); !strings.Contains(last, path.Base(in.file)) {
		return true, fmt.Errorf("%s refuses to start without naming the file: %s", n.ID, last)
	}
	st.note("%s refuses to start", n.ID)
	return true, errors.Join(n.Wipe(), st.start(n))
}

// smallSegments makes the segments of logs small.
func smallSegments(_ *stage, o *nodes.Options) error {
	o.Args = append(o.Args, "--segment-size", "1MiB")
	return nil
}
