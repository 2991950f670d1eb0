package blackbox

import (
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// handBlock is a block of the handbook: the mark before it, if any, its language and its lines.
var handBlock = regexp.MustCompile("(?ms)^(?: *<!-- ([a-z-]+)[^\n]* -->\n)? *```([a-z]*)\n(.*?)\n *```$")

// onMachines are programs on the nodes' machines that are not part of brokerd. The handbook says
// when to use them; the test does not run them.
var onMachines = []string{"apt", "editor", "smartctl", "iostat", "openssl", "dmesg", "top", "journalctl"}

// commandsOf returns the commands of a page that this test runs: those in shell blocks that no
// other test runs.
func commandsOf(t *testing.T, page, text string) (commands []string) {
	t.Helper()
	for _, block := range handBlock.FindAllStringSubmatch(text, -1) {
		mark, language, lines := block[1], block[2], strings.Split(block[3], "\n")
		first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(lines[0]), "$ "), " ")
		switch {
		case mark == "run" || mark == "night": // make conformance and the nights run it
		case mark != "" && mark != "dry":
			t.Errorf("%s: unknown mark <!-- %s -->", page, mark)
		case language == "sh":
			for _, line := range lines {
				if line = strings.TrimSpace(line); mark == "dry" {
					line += " --dry-run"
				}
				commands = append(commands, line)
			}
		case language == "" && (first == "brokerctl" || first == "brokerd" || first == "systemctl" || slices.Contains(onMachines, first)):
			t.Errorf("%s: no test runs the block that begins with %q: call it sh", page, lines[0])
		}
	}
	return commands
}

// TestHandbookSteps runs every command of every page of docs/operations on three nodes, in the
// order of the page, except those in blocks with a test of their own. Every brokerctl command must
// succeed, except that health may report problems.
func TestHandbookSteps(t *testing.T) {
	_, texts := pages(t)
	for page, text := range texts {
		commands := commandsOf(t, page, text)
		if len(commands) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			n := threeMachines(t, nil)
			n.topic("one", "two", "three")
			n.ctl("backup create backups")
			maps.Copy(n.words, map[string]string{
				"DIR": "backups", "FILE": "bundle.tar.gz", "CERT": "cert.pem", "DISK": "sda", "N": "6", "NODE": "n2", "PARTITION": "0",
			})
			ran := 0
			for _, line := range commands {
				if line == "" {
					continue
				}
				n.follow(line)
				ran++
			}
			t.Logf("%d commands", ran)
		})
	}
}

// follow runs one command of a page. Before a restore it deletes the topic.
func (n *night) follow(line string) {
	n.Helper()
	config, err := filepath.Abs("../../deploy/brokerd.toml")
	if err != nil {
		n.Fatal(err)
	}
	line = strings.NewReplacer("https://NODE:4153 --cacert ca.pem", "http://"+n.Node(n.words["NODE"]).HTTP, "http://NODE:4151", "http://"+n.Node(n.words["NODE"]).HTTP, "/etc/brokerd/brokerd.toml", config, "/var/lib/brokerd", n.Node(n.words["NODE"]).Data()).Replace(line)
	command := n.fill(line)
	words := strings.Fields(command)
	switch {
	case slices.Contains(onMachines, words[0]):
		return
	case words[0] == "systemctl":
		if words[1] == "enable" || words[1] == "list-timers" {
			return // a unit of systemd
		}
	case strings.HasPrefix(command, "brokerctl backup restore backups") && strings.Contains(n.ctl("topic list -o name"), "orders"):
		n.ctl("topic delete orders --purge --yes") // the page describes a cluster that is lost
	}
	out, err := n.shell(command)
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); out, err = n.shell(command) {
		if code := exitCode(err); strings.HasPrefix(command, "brokerctl cluster health") && (code == 10 || code == 11) {
			err = nil // the output says so
			break
		} else if code != 4 && code != 6 && code != 11 {
			break // others may fail while a node restarts
		}
	}
	if err != nil {
		n.Fatalf("$ %s\n%s%v", command, out, err)
	}
}

// exitCode returns the exit code of a failed program, -1 if it did not run.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}
