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
	consoleBlock = regexp.MustCompile("(?s)(?:<!-- worker: (\\w+) -->\n)|```console\n(.*?)```")
	varying      = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|[0-9a-f]{16}|(?:os:\S+ )?127\.0\.0\.1:\d+`) // times, ids, users and addresses
)

// TestGuidesMatchCommandOutput runs the commands of the guides in order on a new node, and compares
// their output with the output shown in the guides. Times and ids may differ. Where a guide says
// so, a worker fails messages meanwhile, and commands that show dead letters are repeated.
func TestGuidesMatchCommandOutput(t *testing.T) {
	for _, page := range []string{"delayed.md", "exactly-once.md", "replay.md", "retries.md", "tour.md", "tracing.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", page))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			spans := startCollector(t)
			n := startNodeOn(t, filepath.Join(dir, "data"), "--otlp-endpoint", spans.URL)
			ran := 0
			var worker *wire
			for _, block := range consoleBlock.FindAllSubmatch(raw, -1) {
				switch string(block[1]) {
				case "fails":
					worker = n.failing("orders", "bill")
				case "ends":
					_ = worker.Close() // the node has to learn of it
				}
				for _, step := range strings.Split(string(block[2]), "$ ")[min(1, len(block[2])):] {
					command, shown, _ := strings.Cut(step, "\n")
					got := n.shell(dir, command)
					if strings.HasPrefix(command, "brokerctl dlq ") && worker != nil && steady(got) != steady(shown) {
						eventually(t, "the worker fails messages", func() bool { got = n.shell(dir, command); return steady(got) == steady(shown) })
					}
					if shown != "" && steady(got) != steady(shown) {
						t.Errorf("$ %s\n%s\nthe guide shows:\n%s", command, got, shown)
					}
					ran++
				}
			}
			if page == "tracing.md" {
				eventually(t, "the spans that the guide shows", func() bool {
					return spans.tree("0af7651916cd43dd8448eb211c80319c") == "commit payments < publish payments, "+
						"deliver payments < publish payments, finish payments < deliver payments, publish payments < b7ad6b7169203331"
				})
			}
			if ran < 8 {
				t.Errorf("only %d commands were found", ran)
			}
		})
	}
}

// TestManualMatchesCommandOutput runs the console blocks of docs/brokerctl.md on a new node. The
// commands that fail there show their error. Blocks without a language are examples from clusters.
func TestManualMatchesCommandOutput(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "brokerctl.md"))
	if err != nil {
		t.Fatal(err)
	}
	n, dir, ran := startNodeOn(t, filepath.Join(t.TempDir(), "data")), t.TempDir(), 0
	changing := regexp.MustCompile(`\b([\d.]+m?s|[A-Z2-7]{26})\b`) // the age of the oldest message, the id of the cluster
	for _, block := range consoleBlock.FindAllSubmatch(raw, -1) {
		for _, step := range strings.Split(string(block[2]), "$ ")[min(1, len(block[2])):] {
			command, shown, _ := strings.Cut(step, "\n")
			if strings.Contains(shown, "error") {
				command += " || true"
			}
			got := n.shell(dir, command)
			if changing.ReplaceAllString(steady(got), "X") != changing.ReplaceAllString(steady(shown), "X") {
				t.Errorf("$ %s\n%s\nthe manual shows:\n%s", command, got, shown)
			}
			ran++
		}
	}
	if ran < 9 {
		t.Errorf("only %d commands were found", ran)
	}
}

// failing is a consumer that requeues messages whose body begins with bad, and finishes the others.
func (n *node) failing(topic, channel string) *wire {
	n.t.Helper()
	w := n.consumer(topic, channel, 1, `{"client_id":"worker-1"}`)
	go func() {
		for {
			kind, data, err := w.next(patience)
			if err != nil {
				return // the connection was closed
			}
			if kind != frameMessage {
				continue
			}
			id, body, answer := data[10:26], data[26:], "FIN "
			if strings.HasPrefix(body, "bad") {
				answer, id = "REQ ", id+" 0"
			}
			if _, err := w.Write([]byte(answer + id + "\n")); err != nil {
				return
			}
		}
	}()
	return w
}

// usualAddress is the HTTP address of a node without options, which the guides use.
const usualAddress = "127.0.0.1:4151"

// shell runs a command in a directory, like a user of the node, and returns its output. The usual address stands for
// the node's.
func (n *node) shell(dir, command string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(command, usualAddress, n.address("HTTP")))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "BROKERCTL_ADDR=http://"+n.address("HTTP"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Errorf("$ %s: %v", command, err)
	}
	return string(out)
}

// steady returns the stable words of an output, without times, ids and alignment.
func steady(text string) string {
	return strings.Join(strings.Fields(varying.ReplaceAllString(text, "X")), " ")
}
