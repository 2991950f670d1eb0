package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/brokerd/brokerd/internal/words"
)

// place is the position of a key in a file; rows and columns count from 1.
type place struct{ row, col int }

// parseFile reads a TOML file of settings: a flat list of keys, words joined
// by underscores. Dashes are accepted too, as flags spell them.
func parseFile(name string, content []byte) ([]Assignment, Problems) {
	lines := strings.Split(string(content), "\n")
	var tree map[string]any
	if err := toml.Unmarshal(content, &tree); err != nil {
		return nil, Problems{syntaxProblem(name, lines, err)}
	}
	known := map[string]Setting{}
	var names []string
	var o Options
	for _, s := range o.Settings() {
		known[s.FileKey()] = s
		names = append(names, s.FileKey())
	}
	var assigned []Assignment
	var problems Problems
	seen := map[string]bool{}
	for _, entry := range entries(content) {
		at := at{name, entry.place, quote(lines, entry.place, len(entry.key[len(entry.key)-1]))}
		last := strings.ReplaceAll(entry.key[len(entry.key)-1], "-", "_")
		s, ok := known[last]
		switch {
		case !ok:
			problems = append(problems, at.problem(fmt.Sprintf("unknown key %q%s", strings.Join(entry.key, "."), didYouMean(words.Nearest(last, names)))))
		case len(entry.key) > 1:
			problems = append(problems, at.problem(fmt.Sprintf("%s must be at the top level, not in a table", last)))
		case s.Key == configKey:
			problems = append(problems, at.problem("config cannot be set in a file"))
		case seen[s.Key]:
			problems = append(problems, at.problem(fmt.Sprintf("%s is set twice", last)))
		default:
			seen[s.Key] = true
			text, err := scalar(tree[entry.key[0]], s.IsList())
			if err != nil {
				problems = append(problems, at.problem(fmt.Sprintf("%s %v", last, err)))
				continue
			}
			assigned = append(assigned, Assignment{Key: s.Key, Value: text, Where: at.String(), Quote: at.quote})
		}
	}
	return assigned, problems
}

type at struct {
	file string
	place
	quote string
}

func (a at) String() string { return fmt.Sprintf("%s:%d:%d", a.file, a.row, a.col) }

func (a at) problem(text string) Problem {
	return Problem{Where: a.String(), Text: text, Quote: a.quote}
}

type entry struct {
	key []string
	place
}

// entries lists every key of a well-formed document with its place, in order.
// The decoder reports keys that its target lacks, and an empty struct lacks
// them all.
func entries(content []byte) []entry {
	var nothing struct{}
	err := toml.NewDecoder(bytes.NewReader(content)).DisallowUnknownFields().Decode(&nothing)
	var missing *toml.StrictMissingError
	if !errors.As(err, &missing) {
		return nil
	}
	list := make([]entry, 0, len(missing.Errors))
	for i := range missing.Errors {
		e := &missing.Errors[i]
		row, col := e.Position()
		list = append(list, entry{key: e.Key(), place: place{row, col}})
	}
	return list
}

func syntaxProblem(name string, lines []string, err error) Problem {
	var wrong *toml.DecodeError
	if !errors.As(err, &wrong) {
		return Problem{Where: name, Text: err.Error()}
	}
	row, col := wrong.Position()
	p := place{row, col}
	return at{name, p, quote(lines, p, 1)}.problem(strings.TrimPrefix(wrong.Error(), "toml: "))
}

// quote returns the line of a place, numbered, and marks width characters.
func quote(lines []string, p place, width int) string {
	if p.row < 1 || p.row > len(lines) {
		return ""
	}
	line := strings.ReplaceAll(strings.TrimRight(lines[p.row-1], "\r"), "\t", " ")
	if p.col < 1 || p.col > len(line)+1 {
		return ""
	}
	number := strconv.Itoa(p.row)
	blank := strings.Repeat(" ", len(number))
	return fmt.Sprintf("    %s | %s\n    %s | %s%s", number, line, blank, strings.Repeat(" ", p.col-1), strings.Repeat("~", max(width, 1)))
}

// scalar turns a TOML value into the text that a flag would have.
func scalar(v any, list bool) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case bool:
		return strconv.FormatBool(v), nil
	case []any:
		if !list {
			return "", errors.New("cannot be a list")
		}
		words := make([]string, 0, len(v))
		for _, item := range v {
			word, err := scalar(item, false)
			if err != nil {
				return "", err
			}
			words = append(words, word)
		}
		return strings.Join(words, ","), nil
	}
	return "", errors.New("must be a string, a number, a boolean or a list of them")
}
