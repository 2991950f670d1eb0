package main

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

//go:embed mistakes/*.txt
var lists embed.FS

// mistake is one change of the sources that a test must find.
type mistake struct {
	// name describes the mistake. It begins with the rule of test/model that it violates, if
	// any.
	name  string
	file  string // relative to the module
	old   string // whole lines, which occur in file exactly once
	with  string // replaces old
	tests []string
	run   string // a pattern of test names; "": all
}

// mistakes returns all of them, in the order of the files' names.
func mistakes() ([]mistake, error) {
	files, err := lists.ReadDir("mistakes")
	if err != nil {
		return nil, err
	}
	var all []mistake
	for _, f := range files {
		name := path.Join("mistakes", f.Name())
		list, err := lists.Open(name)
		if err != nil {
			return nil, err
		}
		some, err := parse(list)
		if err != nil {
			return nil, fmt.Errorf("%s:%w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// parse reads a list of mistakes. Each has a line for its name, its file and its tests, and then the
// change in the form of a patch: lines that begin with a minus are replaced by those that begin with
// a plus, and those that begin with a space stay. Lines that are empty or begin with # are skipped.
func parse(r io.Reader) ([]mistake, error) {
	var all []mistake
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "mistake "); ok {
			all = append(all, mistake{name: name})
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%d: no mistake line before %q", n, line)
		}
		if err := all[len(all)-1].add(line); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
	}
	return all, lines.Err()
}

// add adds a line of the list to m.
func (m *mistake) add(line string) error {
	switch kind, rest, _ := strings.Cut(line, " "); {
	case line[0] == ' ':
		m.old += line[1:] + "\n"
		m.with += line[1:] + "\n"
	case line[0] == '-':
		m.old += line[1:] + "\n"
	case line[0] == '+':
		m.with += line[1:] + "\n"
	case m.old+m.with != "":
		return fmt.Errorf("the lines of the change end with %q", line)
	case kind == "file" && m.file == "":
		m.file = rest
	case kind == "test" && m.tests == nil:
		packages, pattern, _ := strings.Cut(rest, " -run ")
		m.tests, m.run = strings.Fields(packages), pattern
	default:
		return fmt.Errorf("%q is not a file line, a test line or a line of the change", line)
	}
	return nil
}

// errNotOnce: the lines to replace do not occur exactly once.
var errNotOnce = errors.New("want the lines to replace exactly once")

// apply returns source, the text of the file, with the mistake in it.
func (m *mistake) apply(source string) (string, error) {
	source = "\n" + source
	if n := strings.Count(source, "\n"+m.old); n != 1 {
		return "", fmt.Errorf("%s has them %d times: %w", m.file, n, errNotOnce)
	}
	return strings.Replace(source, "\n"+m.old, "\n"+m.with, 1)[1:], nil
}

// structural are the rules of test/model that no line of code can drop, with
// the reason.
func structural() map[string]string {
	return map[string]string{
		"CheckpointKeeps": "a checkpoint leaves nothing out that was noted",
		"NoRollback":      "a term has no call that takes an appended batch back",
		"PositionWaits":   "what a follower keeps of positions knows no log that it could be cut to",
		"CheckAndAppend":  "one goroutine of the follower checks and appends; the simulation of replicas plants it",
	}
}
