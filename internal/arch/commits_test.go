package arch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// checkedAfter is the last commit whose message is not checked: some commits up to it have no
	// body, or a longer subject.
	checkedAfter = "c6568be609da86c162fa235675a4d90c4b6863cc"
	// maxSubject is the maximum length of a commit's subject, in characters.
	maxSubject = 71
)

func TestCommitMessages(t *testing.T) {
	commits, err := history(root, checkedAfter)
	if skip, ok := errors.AsType[noHistoryError](err); ok {
		t.Skipf("commit messages not checked: %v", skip)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commits {
		if err := checkMessage(c.message); err != nil {
			t.Errorf("commit %.12s: %v: %q; amend it, see CONTRIBUTING.md", c.id, err, c.message)
		}
	}
}

// subjectForm is "package: what it does", with one or more packages.
var subjectForm = regexp.MustCompile(`^[A-Za-z0-9_./-]+(?:, [A-Za-z0-9_./-]+)*: ([^A-Z\s]\S*)(?: .*)?[^.]$`)

// notImperative matches first words that are not imperative: "adds", "added", "adding", "the log
// is", "a client that". Imperatives that look like one of these are excepted.
var (
	notImperative = regexp.MustCompile(`^(?:a|an|the|this|that|it|no|new|some|all|two|\S+ing|\S+[^e]ed|\S+[^sui]s)$`)
	imperative    = regexp.MustCompile(`^(?:bring|ping|string|embed|shed|shred|wed|bias)$`)
)

// checkMessage returns what is wrong with a commit's message, or nil.
func checkMessage(message string) error {
	subject, body, _ := strings.Cut(message, "\n")
	if strings.HasPrefix(subject, "Revert ") {
		subject = "revert: undo"
	}
	form := subjectForm.FindStringSubmatch(subject)
	switch {
	case utf8.RuneCountInString(subject) > maxSubject:
		return fmt.Errorf("subject has %d characters, limit is %d", utf8.RuneCountInString(subject), maxSubject)
	case form == nil:
		return errors.New(`subject is not "package: lowercase imperative" without a full stop`)
	case notImperative.MatchString(form[1]) && !imperative.MatchString(form[1]):
		return fmt.Errorf("subject is not an imperative: it starts with %q", form[1])
	case strings.TrimSpace(body) == "":
		return errors.New("body missing: say what was, what is, and why")
	}
	return nil
}

// commit is a commit whose message is checked.
type commit struct{ id, message string }

// noHistoryError is the reason for which there are no commits to check. It is not a failure.
type noHistoryError string

func (e noHistoryError) Error() string { return string(e) }

// history returns the commits of the repository in dir after the given one, without merges. A
// shallow clone that does not reach back to that commit has only later ones, all of which are
// returned. Without git, outside of a repository, or with another history the error is a
// noHistoryError.
func history(dir, after string) ([]commit, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, noHistoryError("git is not installed")
	}
	top, err := git(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, noHistoryError("no git repository: " + err.Error())
	}
	if here, err := os.Stat(dir); err != nil {
		return nil, err
	} else if there, err := os.Stat(strings.TrimSpace(top)); err != nil || !os.SameFile(here, there) {
		return nil, noHistoryError("part of another git repository")
	}
	which := "HEAD"
	if _, err := git(dir, "merge-base", "--is-ancestor", after, "HEAD"); err == nil {
		which = after + "..HEAD"
	} else if shallow, err := git(dir, "rev-parse", "--is-shallow-repository"); err != nil || strings.TrimSpace(shallow) != "true" {
		return nil, noHistoryError("history does not contain commit " + after)
	}
	log, err := git(dir, "log", "--no-merges", "--format=%H%n%B%x00", which)
	if err != nil {
		return nil, err
	}
	var commits []commit
	for entry := range strings.SplitSeq(log, "\x00") {
		if id, message, ok := strings.Cut(strings.TrimSpace(entry), "\n"); ok {
			commits = append(commits, commit{id, message})
		}
	}
	return commits, nil
}

// git returns the output of a git command in dir, independent of the environment.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out.String(), nil
}

func TestCommitMessageRules(t *testing.T) {
	const body = "\n\nThe log was cut.\n"
	for message, want := range map[string]string{
		"topic: read a batch once" + body:                       "",
		"coord, topic: pass what is known" + body:               "",
		"test/cluster: process results in order" + body:         "",
		"CHANGELOG: name what users see" + body:                 "",
		"channel: need no lock" + body:                          "",
		"meta: " + strings.Repeat("é", 65) + body:               "",
		`Revert "topic: read a batch once"` + body:              "",
		"meta: " + strings.Repeat("é", 66) + body:               "72 characters",
		"topic: read a batch once":                              "body missing",
		"topic: read a batch once\n\n \n":                       "body missing",
		"topic: reads a batch once" + body:                      "not an imperative",
		"topic: added a batch" + body:                           "not an imperative",
		"topic: adding a batch" + body:                          "not an imperative",
		"broker: a relay that gives up tells the leader" + body: "not an imperative",
		"topic: Read a batch" + body:                            "lowercase imperative",
		"topic: read a batch." + body:                           "lowercase imperative",
		"read a batch once" + body:                              "lowercase imperative",
		"read a batch: it may be long" + body:                   "lowercase imperative",
	} {
		if err := checkMessage(message); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", message, err, want)
		}
	}
}

func TestHistoryOfEveryKindOfTree(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	whole := t.TempDir()
	run := func(dir string, args ...string) string {
		t.Helper()
		id := []string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}
		out, err := git(dir, append(id, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	run(whole, "init", "-q")
	for _, subject := range []string{"first", "second", "third"} {
		run(whole, "commit", "-q", "--allow-empty", "-m", subject, "-m", "Why.")
	}
	first := run(whole, "rev-parse", "HEAD~2")
	clone := func(args ...string) string {
		dir := t.TempDir()
		run(dir, append(append([]string{"clone", "-q"}, args...), "file://"+whole, "c")...)
		return filepath.Join(dir, "c")
	}
	merged := clone()
	run(merged, "checkout", "-q", "-b", "side", "HEAD~1")
	run(merged, "commit", "-q", "--allow-empty", "-m", "fourth", "-m", "Why.")
	run(merged, "merge", "-q", "--no-ff", "-m", "Merge", "-m", "Without a reason.", "@{-1}")
	inner := filepath.Join(whole, "vendored")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		dir, after string
		want       int    // commits
		skip       string // why there are none
	}{
		"whole":                {whole, first, 2, ""},
		"worktree's clone":     {clone(), first, 2, ""},
		"merged":               {merged, first, 3, ""},
		"shallow":              {clone("--depth", "1"), first, 1, ""},
		"shallow, but reaches": {clone("--depth", "3"), first, 2, ""},
		"other history":        {whole, checkedAfter, 0, "does not contain"},
		"tarball":              {t.TempDir(), first, 0, "git repository"},
		"tarball in another":   {inner, first, 0, "part of another"},
	} {
		got, err := history(test.dir, test.after)
		skip, skipped := errors.AsType[noHistoryError](err)
		if len(got) != test.want || skipped != (test.skip != "") || !skipped && err != nil || !strings.Contains(string(skip), test.skip) {
			t.Errorf("%s: %d commits, %v; want %d, %q", name, len(got), err, test.want, test.skip)
		}
		for _, c := range got {
			if len(c.id) != 40 || !strings.HasSuffix(c.message, "Why.") {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}
