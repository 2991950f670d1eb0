package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented returns the brokerctl command lines in the fenced blocks of a document, with their
// line numbers: those on a line of their own, or after a prompt.
func documented(text string) map[int]string {
	found := map[int]string{}
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		line = strings.TrimPrefix(line, "$ ")
		if fenced && strings.HasPrefix(line, "brokerctl ") {
			line = quoted.ReplaceAllString(line, "QUOTED")
			line, _, _ = strings.Cut(line, "#")
			line, _, _ = strings.Cut(line, " > ")
			line, _, _ = strings.Cut(line, " && ")
			found[i+1] = strings.TrimSpace(line)
		}
	}
	return found
}

// inline returns the command lines of brokerctl in the text and the tables of a document, outside of fenced blocks.
func inline(text string) (commands []string) {
	for _, span := range codeSpan.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
		line := quoted.ReplaceAllString(span[1], "QUOTED")
		if !strings.Contains(line, "...") {
			commands = append(commands, line)
		}
	}
	return commands
}

var (
	fencedBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	codeSpan    = regexp.MustCompile("`(brokerctl [^`]*)`")
)

// quoted quotes one word for the shell.
var quoted = regexp.MustCompile(`'[^']*'`)

// TestCommandsInTheManualExist parses every command line of the manual: its command and its flags
// must exist.
func TestCommandsInTheManualExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/operations/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range append(pages, "../../docs/operations.md", "../../docs/brokerctl.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line, command := range documented(string(text)) {
			count++
			command = strings.ReplaceAll(command, "INCARNATION", "1") // which readers replace by a number
			root := newRootCommand(&globals{})
			cmd, rest, err := root.Find(strings.Fields(command)[1:])
			if err == nil && cmd.HasSubCommands() {
				err = usageError("%s is a group", cmd.CommandPath())
			}
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s:%d: %s: %v", page, line, command, err)
			}
		}
	}
	if count < 50 {
		t.Errorf("found only %d commands", count)
	}
}

// TestFlagsInHelpTextExist parses the commands in the text and in the tables of the manual, which
// may lack arguments: the command and its flags must exist.
func TestFlagsInHelpTextExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/operations/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range append(pages, "../../docs/operations.md", "../../docs/security.md", "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range inline(string(text)) {
			count++
			cmd, rest, err := newRootCommand(&globals{}).Find(strings.Fields(command)[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil && !strings.Contains(err.Error(), "invalid syntax") { // N is replaced by a number
				t.Errorf("%s: %s: %v", page, command, err)
			}
		}
	}
	if count < 50 {
		t.Errorf("found only %d commands", count)
	}
}

// TestExamplesOfTheManualHaveItsColumns compares the tables of docs/brokerctl.md that no test produces, because they are of
// clusters with a history, with the columns of the commands.
func TestExamplesOfTheManualHaveItsColumns(t *testing.T) {
	text, err := os.ReadFile("../../docs/brokerctl.md")
	if err != nil {
		t.Fatal(err)
	}
	header := regexp.MustCompile(`^[A-Z][A-Z/s-]*( +[A-Z][A-Z/s]*){2,}$`)
	b, compared := newFakeBroker(t), 0
	b.set("GET /v1/topics/orders/partitions/1", movingPartition())
	for _, block := range regexp.MustCompile("(?ms)^```\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		for _, step := range strings.Split(block[1], "$ brokerctl ")[1:] {
			command, shown, _ := strings.Cut(step, "\n")
			columns := slices.DeleteFunc(strings.Split(shown, "\n"), func(line string) bool { return !header.MatchString(line) })
			if len(columns) == 0 {
				continue // other examples run until they are interrupted
			}
			r := b.brokerctl(t, strings.Fields(command)...)
			got := map[string]bool{}
			for line := range strings.Lines(r.stdout) {
				got[strings.Join(strings.Fields(line), " ")] = true
			}
			for _, line := range columns {
				if compared++; !got[strings.Join(strings.Fields(line), " ")] {
					t.Errorf("%s: the manual shows the columns %s; exit %d, %s%s", command, line, r.exit, r.stdout, r.stderr)
				}
			}
		}
	}
	if compared < 5 {
		t.Errorf("only %d tables were found", compared)
	}
}
