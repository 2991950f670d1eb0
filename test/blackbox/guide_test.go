package blackbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")
	varying      = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|[0-9a-f]{16}`) // times and ids
)

// TestTheGuidesShowWhatTheCommandsDo runs the commands of guides, in their order, on a new node,
// and compares what they print with what the guides show, where they show it. Times and ids are
// others.
func TestTheGuidesShowWhatTheCommandsDo(t *testing.T) {
	for _, page := range []string{"delayed.md", "exactly-once.md", "replay.md", "tracing.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", page))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			n := startNodeOn(t, filepath.Join(dir, "data"))
			ran := 0
			for _, block := range consoleBlock.FindAllSubmatch(raw, -1) {
				for _, step := range strings.Split(string(block[1]), "$ ")[1:] {
					command, shown, _ := strings.Cut(step, "\n")
					if got := n.shell(dir, command); shown != "" && steady(got) != steady(shown) {
						t.Errorf("$ %s\n%s\nthe guide shows:\n%s", command, got, shown)
					}
					ran++
				}
			}
			if ran < 8 {
				t.Errorf("only %d commands were found", ran)
			}
		})
	}
}

// shell runs a command as a user of the node would, in a directory, and returns what it prints.
func (n *node) shell(dir, command string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "BROKERCTL_ADDR=http://"+n.address("HTTP"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Errorf("$ %s: %v", command, err)
	}
	return string(out)
}

// steady is what is the same of an output each time: words, without times, ids and columns.
func steady(text string) string {
	return strings.Join(strings.Fields(varying.ReplaceAllString(text, "X")), " ")
}
