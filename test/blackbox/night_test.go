package blackbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

// mostCommands bounds the commands of a runbook from the alert to the cure.
const mostCommands = 6

// handbook are the pages whose commands are run here, and runbooks is the one with the table of the nights.
const (
	handbook = "../../docs/operations"
	runbooks = handbook + "/runbooks.md"
)

var (
	nightBlock  = regexp.MustCompile("(?s)<!-- night: ([a-z-]+) -->\n```sh\n(.*?)```")
	placeholder = regexp.MustCompile(`\b[A-Z][A-Z0-9-]*[A-Z0-9]\b`)
)

// steps returns the commands of each runbook of a page, by its name.
func steps(page string) map[string][]string {
	all := map[string][]string{}
	for _, m := range nightBlock.FindAllStringSubmatch(page, -1) {
		all[m[1]] = strings.Split(strings.TrimSpace(m[2]), "\n")
	}
	return all
}

// ports are those of all clusters of these tests, so that no two get the same.
var ports nodes.Ports

// night is one incident: a cluster with a fault, and the commands of its runbook.
type night struct {
	*testing.T
	*nodes.Cluster
	dir   string // of all that it keeps
	steps []string
	ran   int
	words map[string]string // what the placeholders of the page stand for
	env   []string          // of the operator's shell, too
	token string            // of an administrator, while access control is on
	// systemctl, apt-get and editor do what those programs do on a node; nil: they do nothing else than fail.
	systemctl func(node, verb, unit string) (string, error)
	aptGet    func(node string) error
	editor    func(node, file string) error
}

// newNight starts three nodes with access control on for the runbook of a name. change may change their options.
func newNight(t *testing.T, name string, change func(dir string, o *nodes.Options)) *night {
	t.Helper()
	t.Parallel()
	all, _ := pages(t)
	n := threeMachines(t, change)
	if n.steps = all[name]; len(n.steps) == 0 {
		t.Fatalf("%s has no runbook %s", handbook, name)
	}
	n.secured()
	return n
}

// pages returns the commands of all runbooks, and the text of each page by its name.
func pages(t *testing.T) (commands map[string][]string, texts map[string]string) {
	t.Helper()
	files, err := filepath.Glob(handbook + "/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	commands, texts = map[string][]string{}, map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(commands, steps(string(text)))
		texts[filepath.Base(file)] = string(text)
	}
	return commands, texts
}

// threeMachines starts three nodes. change may change their options.
func threeMachines(t *testing.T, change func(dir string, o *nodes.Options)) *night {
	t.Helper()
	n := &night{T: t, dir: t.TempDir(), words: map[string]string{"NODE": "n1"}}
	n.systemctl = n.service
	at, err := ports.Free(3)
	if err != nil {
		t.Fatal(err)
	}
	o := nodes.Options{Program: programs + "/brokerd", Dir: n.dir, Nodes: at}
	if change != nil {
		change(n.dir, &o)
	}
	o.Args = append(o.Args, "--cluster-secret-file", clusterSecret(t)) // access control needs it
	if n.Cluster, err = nodes.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, x := range n.Nodes {
				t.Log(x.LogEnd())
			}
		}
	})
	return n
}

// service does what systemctl does with the unit of a node.
func (n *night) service(node, verb, unit string) (string, error) {
	x := n.Node(node)
	if x == nil || unit != "brokerd" {
		return "", fmt.Errorf("no unit %s on %s", unit, node)
	}
	running := func() bool {
		select {
		case <-x.Exited():
			return false
		default:
			return true
		}
	}
	switch verb {
	case "status":
		if running() {
			return "active (running)", nil
		}
		return x.How() + "\n" + x.LogEnd(), errors.New("not running")
	case "reload":
		return "", x.Reload()
	case "stop", "restart":
		if running() {
			if err := x.Stop(); err != nil {
				return "", err
			}
		}
		if verb == "stop" {
			return "", nil
		}
		fallthrough
	case "start":
		if running() {
			return "", nil
		}
		if err := x.Start(); err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(n.Context(), patience)
		defer cancel()
		return "", x.Ready(ctx)
	}
	return "", fmt.Errorf("unknown verb %s", verb)
}

// shell runs one command as an operator does and returns what it prints, and whether it succeeded.
func (n *night) shell(command string) (string, error) {
	n.Helper()
	node := n.words["NODE"]
	words := strings.Fields(command)
	switch words[0] {
	case "systemctl":
		return n.systemctl(node, words[1], words[2])
	case "apt-get":
		return "", n.aptGet(node)
	case "editor":
		return "", n.editor(node, words[1])
	}
	var addresses []string
	for _, x := range n.Nodes {
		addresses = append(addresses, "http://"+x.HTTP)
	}
	ctx, cancel := context.WithTimeout(n.Context(), 3*patience)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, &out, &out
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "HOME="+n.dir, "BROKERCTL_ADDR="+strings.Join(addresses, ","))
	cmd.Env = append(cmd.Env, n.env...)
	err := cmd.Run()
	return out.String(), err
}

// next runs the next command of the runbook, which must succeed.
func (n *night) next() string {
	n.Helper()
	out, err := n.try()
	if err != nil {
		n.Fatalf("command %d: %v\n%s", n.ran, err, out)
	}
	return out
}

// shows runs the next command and wants what it prints to match a pattern, which may take a while. It returns what the groups match.
func (n *night) shows(pattern string) []string {
	n.Helper()
	want := regexp.MustCompile(pattern)
	n.ran++
	command := n.command(n.ran)
	var out string
	var found []string
	deadline := time.Now().Add(2 * patience)
	for found == nil {
		if time.Now().After(deadline) {
			n.Fatalf("$ %s\n%sdoes not show %s", command, out, pattern)
		}
		var err error
		if out, err = n.shell(command); err != nil {
			out += err.Error() + "\n" // what a runbook begins with may say so by its exit code
		}
		found = want.FindStringSubmatch(out)
	}
	n.Logf("$ %s\n%s", command, out)
	return found
}

// try runs the next command of the runbook.
func (n *night) try() (string, error) {
	n.Helper()
	n.ran++
	command := n.command(n.ran)
	out, err := n.shell(command)
	n.Logf("$ %s\n%s", command, out)
	return out, err
}

// command is the i-th command of the runbook, from 1 on, with words in the place of the placeholders.
func (n *night) command(i int) string {
	n.Helper()
	if i > len(n.steps) {
		n.Fatalf("the runbook has %d commands, and nothing is cured", len(n.steps))
	}
	return n.fill(n.steps[i-1])
}

// fill puts words in the place of the placeholders of a line, and takes its comment off.
func (n *night) fill(line string) string {
	n.Helper()
	command, _, _ := strings.Cut(line, " #")
	return placeholder.ReplaceAllStringFunc(strings.TrimSpace(command), func(word string) string {
		if to, ok := n.words[word]; ok {
			return to
		}
		if strings.Contains(command, "--sort-by "+word) {
			return word
		}
		n.Fatalf("nothing says what %s is in %s", word, line)
		return ""
	})
}

// cured ends the night: all commands of the page were run, and are counted.
func (n *night) cured() {
	n.Helper()
	if n.ran != len(n.steps) {
		n.Errorf("the page has %d commands, %d were enough", len(n.steps), n.ran)
	}
	n.Logf("%d commands from the alert to the cure", n.ran)
}

// healthy is what a health command shows at the end.
const healthy = `(?m)^HEALTHY`

// ctl runs brokerctl, which must succeed.
func (n *night) ctl(args ...string) string {
	n.Helper()
	out, err := n.shell("brokerctl " + strings.Join(args, " "))
	if err != nil {
		n.Fatalf("brokerctl %v: %v\n%s", args, err, out)
	}
	return out
}

// topic makes the topic orders with the channel invoice, with a replica on every node, and messages.
func (n *night) topic(bodies ...string) {
	n.Helper()
	n.words["TOPIC"], n.words["CHANNEL"] = "orders", "invoice"
	n.ctl("topic create orders --partitions 3 --replicas 3 --min-isr 2")
	n.ctl("channel create orders/invoice")
	if len(bodies) > 0 {
		n.ctl("message pub orders", strings.Join(bodies, " "))
	}
}

// depth is that of orders/invoice.
func (n *night) depth() string {
	n.Helper()
	return strings.TrimSpace(n.ctl("channel lag orders/invoice -o 'go-template={{range .channels}}{{.depth}}{{end}}'"))
}

// consumer consumes orders/invoice on a node.
func (n *night) consumer(node, name string, ready int) *wire {
	n.Helper()
	conn, err := net.Dial("tcp", n.Node(node).TCP)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = conn.Close() })
	w := &wire{t: n.T, Conn: conn}
	settings, err := json.Marshal(map[string]string{"client_id": name})
	if err != nil {
		n.Fatal(err)
	}
	w.send("  V2IDENTIFY\n" + sized(string(settings)))
	w.ok()
	if n.token != "" {
		w.send("AUTH\n" + sized(n.token))
		w.response()
	}
	w.send("SUB orders invoice\n")
	w.ok()
	w.send(fmt.Sprintf("RDY %d\n", ready))
	return w
}

// kills ends a node without warning, and has the others know.
func (n *night) kills(node string) {
	n.Helper()
	if err := n.Node(node).End(syscall.SIGKILL); err != nil {
		n.Fatal(err)
	}
}

// The table of the page counts what its blocks have, and none is long.
func TestRunbooksAreShort(t *testing.T) {
	all, texts := pages(t)
	page := texts[filepath.Base(runbooks)]
	rows := regexp.MustCompile(`(?m)^\| \[([^]]+)\]\(#([a-z-]+)\) .* (\d+) \|$`).FindAllStringSubmatch(page, -1)
	if len(rows) < 11 {
		t.Errorf("the table has %d runbooks", len(rows))
	}
	for _, row := range rows {
		_, section, found := strings.Cut(page, "\n## "+row[1]+"\n")
		block := nightBlock.FindStringSubmatch(section)
		if !found || block == nil {
			t.Errorf("%s: no runbook", row[1])
			continue
		}
		if got := fmt.Sprint(len(all[block[1]])); got != row[3] {
			t.Errorf("%s: %s commands, the table says %s", row[1], got, row[3])
		}
	}
	tests, err := filepath.Glob("night*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range tests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	for name, commands := range all {
		if len(commands) > mostCommands {
			t.Errorf("%s: %d commands, want at most %d", name, len(commands), mostCommands)
		}
		if !strings.Contains(code.String(), `newNight(t, "`+name+`"`) {
			t.Errorf("%s: no night runs it", name)
		}
	}
}
