package blackbox

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/s3test"
	"github.com/brokerd/brokerd/internal/testrand"
)

// bucket is a store in an S3 service, for commands of a cluster.
type bucket struct {
	*testing.T
	*s3test.Server
	store string
	flags []string // of brokerctl
}

// ctl runs a command about backups, wants an exit code, and returns what it prints.
func (b *bucket) ctl(want int, args ...string) string {
	b.Helper()
	code, out, errs := run(b.T, "brokerctl", append(slices.Clip(append([]string{"backup", args[0], b.store}, args[1:]...)), b.flags...)...)
	if code != want || strings.Contains(out+errs, s3test.SecretKey) {
		b.Fatalf("%q: exit code %d, want %d: %s%s", args, code, want, out, errs)
	}
	return out + errs
}

// killed begins a backup and kills it while it stores its first chunk.
func (b *bucket) killed() {
	b.Helper()
	storing := make(chan struct{}, 10)
	b.Fail(func(r *http.Request) *s3test.Fault {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/chunks/") {
			storing <- struct{}{}
			return &s3test.Fault{Stall: make(chan struct{})}
		}
		return nil
	})
	cmd := exec.CommandContext(b.Context(), filepath.Join(programs, "brokerctl"), append([]string{"backup", "create", b.store}, b.flags...)...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	<-storing
	if err := cmd.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	b.Fail(nil)
}

// pendingOf returns the messages of topic orders, and what its channel has to deliver, by partition.
func pendingOf(ctl func(args ...string) string) string {
	var all strings.Builder
	for _, target := range []string{"orders", "orders/a", "orders/b"} {
		for p := range 3 {
			fmt.Fprintf(&all, "%s/%d:%s\n", target, p, ctl("message", "peek", target, "--partition", fmt.Sprint(p), "-n", "1000",
				"-o", "go-template={{range .messages}} {{.text}}{{end}}"))
		}
	}
	return all.String()
}

// TestBackupGoesThroughABucket backs up a cluster of three nodes to an S3 service that fails now and
// then, interrupts a backup, damages one, deletes the older ones, and restores into another cluster.
func TestBackupGoesThroughABucket(t *testing.T) {
	service := s3test.Start(t, false)
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	c, addresses, ctl := threeNodes(t)
	b := &bucket{t, service, "s3://" + s3test.Bucket + "/prod", []string{"--s3-endpoint", service.URL, "--addr", "http://" + addresses[1]}}
	ctl("topic", "create", "orders", "--partitions", "3")
	ctl("channel", "create", "orders/a")
	ctl("channel", "create", "orders/b")
	publishLines(t, addresses[0], 0, 40)
	for p, id := range strings.Fields(ctl("message", "peek", "orders/a", "-n", "9", "-o", "go-template={{range .messages}}{{.id}} {{end}}")) {
		if p%2 == 1 { // with gaps
			ctl("message", "finish", id, "--topic", "orders", "--channel", "a")
		}
	}
	ctl("channel", "seek", "orders/b", "--partition", "1", "--to", "17")

	b.killed()
	if out := b.ctl(0, "list"); !strings.Contains(out, "incomplete") || strings.Contains(out, " complete") {
		t.Errorf("an interrupted backup: %s", out)
	}
	b.ctl(3, "verify")
	rng := testrand.New(t)
	limits := make(chan struct{}, 1)
	service.Fail(func(*http.Request) *s3test.Fault {
		limits <- struct{}{} // rng is not for concurrent use
		defer func() { <-limits }()
		switch rng.IntN(10) {
		case 0:
			return &s3test.Fault{Status: 500, Code: "InternalError"}
		case 1:
			return &s3test.Fault{Status: 503, Code: "SlowDown"}
		case 2:
			return &s3test.Fault{LoseAnswer: true}
		}
		return nil
	})
	b.ctl(0, "create")
	b.ctl(0, "verify")
	killLeader(t, c, "orders")
	publishLines(t, addresses[1], 40, 50)
	b.ctl(0, "create")
	b.ctl(0, "verify")
	want := pendingOf(ctl)

	b.ctl(0, "prune", "--keep-last", "1", "--yes") // the process of the interrupted backup has ended
	if keys := service.Keys("prod/backups/"); len(keys) != 1 {
		t.Errorf("backups: %v", keys)
	}
	b.ctl(0, "verify")

	chunk := service.Keys("prod/chunks/")[0]
	flip := func(p []byte) []byte { p[len(p)/2] ^= 4; return p }
	service.Change(chunk, flip)
	if out := b.ctl(1, "verify"); !strings.Contains(out, "s3://"+s3test.Bucket+"/"+chunk) {
		t.Errorf("the damaged object is not named: %s", out)
	}
	c.Kill()
	other, addresses, ctl := threeNodes(t)
	defer other.Kill()
	b.flags[len(b.flags)-1] = "http://" + addresses[0]
	b.ctl(1, "restore")
	if topics := ctl("topic", "list", "-o", "name"); strings.TrimSpace(topics) != "" {
		t.Errorf("a damaged backup was restored: %s", topics)
	}
	service.Change(chunk, flip)
	b.ctl(0, "restore")
	if got := pendingOf(ctl); got != want {
		t.Errorf("restored:\n%s\nwant\n%s", got, want)
	}
	service.Fail(func(*http.Request) *s3test.Fault { return &s3test.Fault{Status: 403, Code: "AccessDenied"} })
	if out := b.ctl(5, "create"); !strings.Contains(out, "no complete backup was made") {
		t.Errorf("without the right: %s", out)
	}
}

// publishLines publishes numbered messages to each partition of topic orders.
func publishLines(t *testing.T, address string, from, end int) {
	t.Helper()
	for p := range 3 {
		var lines strings.Builder
		for i := from; i < end; i++ {
			fmt.Fprintf(&lines, "%d.%d\n", p, i)
		}
		eventually(t, "the partition has a leader", func() bool {
			r, err := http.Post(fmt.Sprintf("http://%s/mpub?topic=orders&partition=%d", address, p), "", strings.NewReader(lines.String())) //nolint:noctx // of a test
			if err != nil {
				return false
			}
			return r.Body.Close() == nil && r.StatusCode == http.StatusOK
		})
	}
}
