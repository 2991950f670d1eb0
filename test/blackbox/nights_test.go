package blackbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

func TestNightAConsumerIsStuck(t *testing.T) {
	n := newNight(t, "consumer-stuck", nil)
	n.topic("one", "two", "three", "four")
	w := n.consumer("n1", "worker-7", 1)
	w.message() // it never finishes it
	var second *wire
	n.words["WORKER"] = "invoice-worker"
	n.systemctl = func(_, verb, unit string) (string, error) {
		if verb != "restart" || unit != "invoice-worker" {
			return "", fmt.Errorf("systemctl %s %s", verb, unit)
		}
		second = n.consumer("n1", "worker-7", 4)
		return "", w.Close()
	}
	n.shows(`(?s)is not moving.* 1\. .*worker-7`)
	n.next()
	got := map[string]bool{}
	for len(got) < 4 {
		m := second.message()
		got[m.body] = true
		second.fin(m)
	}
	n.shows(`0 ready, 0 in flight`)
	n.cured()
}

func TestNightABacklogGrows(t *testing.T) {
	n := newNight(t, "backlog-grows", nil)
	n.topic()
	slow := n.consumer("n1", "worker-1", 1)
	publish := func() error {
		_, err := n.posts("/pub?topic=orders", "m")
		return err
	}
	go slow.eachMessage(func(id string) error { // nine are published for each that it finishes
		for range 9 {
			if err := publish(); err != nil {
				return err
			}
		}
		return slow.finish(id)
	})
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	n.words["WORKER"] = "invoice-worker"
	n.systemctl = func(_, verb, unit string) (string, error) {
		if verb != "start" || unit != "invoice-worker" {
			return "", fmt.Errorf("systemctl %s %s", verb, unit)
		}
		_ = slow.Close()
		fast := n.consumer("n2", "worker-2", 100)
		go fast.eachMessage(fast.finish)
		return "", nil
	}
	n.shows(`invoice`)
	n.shows(`is moving(?s:.*) in, .* out by 1 consumer, .* messages wait: about \d+ more consumers? like these would keep up`)
	n.next()
	n.shows(`(?m)^orders +invoice +0 `)
	n.cured()
}

func TestNightAChannelWasEmptied(t *testing.T) {
	n := newNight(t, "channel-emptied", nil)
	n.topic("one", "two", "three")
	n.ctl("channel empty orders/invoice --yes")
	n.shows(`empty`)
	n.next()
	n.shows(`(?m)^orders +invoice +3 `)
	n.cured()
}

func TestNightAChannelWasDeleted(t *testing.T) {
	n := newNight(t, "channel-deleted", nil)
	n.topic("one", "two", "three")
	n.ctl("channel delete orders/invoice --yes")
	n.ctl("channel create orders/invoice")
	n.shows(`3`)
	n.next()
	n.shows(`(?m)^orders +invoice +3 `)
	n.cured()
}

func TestNightAPoisonMessage(t *testing.T) {
	n := newNight(t, "poison-message", nil)
	n.topic("bad")
	w := n.consumer("n1", "worker-7", 1)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			kind, data, err := w.next(patience)
			if err != nil {
				return
			}
			if kind != frameMessage {
				continue
			}
			select {
			case <-stop:
				return
			default:
			}
			if _, err := w.Write([]byte("REQ " + data[10:26] + " 0\n")); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); _ = w.Close(); <-ended })
	n.shows(`spin|requeue`)
	n.shows(`bad`)
	n.next()
	n.shows(`(?m)^orders/invoice .* orders\.invoice\.dlq`)
	eventually(t, "the message is a dead letter", func() bool {
		return n.depth() == "0" && strings.Contains(n.ctl("dlq peek orders/invoice"), "bad")
	})
	n.cured()
}

func TestNightADiskFills(t *testing.T) {
	disk, _ := smallDisk(t, 256)
	n := newNight(t, "disk-full", func(_ string, o *nodes.Options) {
		o.Dir, o.Args = disk, []string{"--segment-size", "1MiB"}
	})
	n.topic()
	n.words["CHANNEL"] = "forgotten"
	n.ctl("channel create orders/forgotten")
	w := n.consumer("n1", "worker-7", 100)
	go w.eachMessage(w.finish)
	body := strings.Repeat("x", 1<<20)
	refused := func() bool {
		r, err := n.posts("/pub?topic=orders", body)
		return err == nil && r.code == 503
	}
	deadline := time.Now().Add(3 * patience)
	for !refused() {
		if time.Now().After(deadline) {
			t.Fatal("the disk does not fill")
		}
	}
	n.shows(`disk_full`)
	n.shows(`orders`)
	n.shows(`(?s)forgotten.*invoice`)
	n.next()
	n.shows(healthy)
	eventually(t, "publishes are taken again", func() bool { return !refused() })
	n.cured()
}

func TestNightANodeIsDead(t *testing.T) {
	n := newNight(t, "node-dead", nil)
	n.topic("one", "two", "three")
	n.kills("n3")
	if err := n.Node("n3").Wipe(); err != nil { // the machine and its disk are lost
		t.Fatal(err)
	}
	n.words["NODE"] = n.shows(`nodes_down +1 .*\b(n[0-9])\b`)[1]
	n.shows(`down`)
	n.ctl("message pub orders four") // no publisher waits for the lost node
	n.next()
	n.shows(healthy)
	n.ctl("partition verify orders")
	if got := n.depth(); got != "4" {
		t.Errorf("%s messages, want 4", got)
	}
	n.cured()
}

func TestNightANodeIsSlow(t *testing.T) {
	n := newNight(t, "node-slow", nil)
	n.topic()
	// A process that gets a tenth of its time is as slow as a failing disk makes it.
	slow, stop, ended := n.Node("n3"), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				_ = slow.Resume() // it may have ended, here and below
				return
			case <-tick.C:
				if i%10 == 0 {
					_ = slow.Resume()
				} else {
					_ = slow.Pause()
				}
			}
		}
	}()
	repaired := func() {
		if stop != nil {
			close(stop)
			<-ended
			stop = nil
		}
	}
	t.Cleanup(repaired)
	quit := make(chan struct{})
	var published sync.WaitGroup
	for i := range 3 {
		published.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					_, _ = n.posts(fmt.Sprintf("/pub?topic=orders&partition=%d", i), "load")
				}
			}
		})
	}
	t.Cleanup(func() { close(quit); published.Wait() })
	n.words["NODE"] = n.shows(`replica_slow .* at (n[0-9])\b`)[1]
	n.next()
	n.next()
	repaired()
	n.next()
	n.next()
	n.shows(healthy)
	n.cured()
}

func TestNightAWrongConfiguration(t *testing.T) {
	file := ""
	n := newNight(t, "wrong-config", func(dir string, o *nodes.Options) {
		file = filepath.Join(dir, "n2.toml")
		if err := os.WriteFile(file, []byte("max_rdy_count = 100\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o.ArgsOf = func(id string) []string { return map[string][]string{"n2": {"--config", file}}[id] }
	})
	n.topic("one")
	n.words["NODE"], n.words["FILE"] = "n2", file
	n.editor = func(_, file string) error { return os.WriteFile(file, []byte("max_rdy_count = 200\n"), 0o600) }
	if err := os.WriteFile(file, []byte("max_rdy_conut = 200\n"), 0o600); err != nil { // the change of the day
		t.Fatal(err)
	}
	if err := n.Node("n2").Stop(); err != nil {
		t.Fatal(err)
	}
	if err := n.Node("n2").Start(); err != nil {
		t.Fatal(err)
	}
	<-n.Node("n2").Exited()
	n.shows(`exit status 78`)
	n.shows(`n2\.toml:1:1.*did you mean max_rdy_count`)
	n.next()
	n.next()
	n.next()
	n.shows(healthy)
	n.cured()
}

func TestNightABadRelease(t *testing.T) {
	var release func(id, program string)
	n := newNight(t, "bad-release", func(dir string, o *nodes.Options) {
		// A node runs what the link of its name leads to, as /usr/bin/brokerd does.
		release = func(id, program string) {
			link := filepath.Join(dir, "release-"+id)
			_ = os.Remove(link) // there is none at first
			if err := os.Symlink(program, link); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"n1", "n2", "n3"} {
			release(id, programs+"/brokerd")
		}
		o.Wrap = func(i int) []string {
			return []string{"sh", "-c", `shift; exec "$0" "$@"`, fmt.Sprintf("%s/release-n%d", dir, i+1)}
		}
	})
	n.topic("one", "two", "three")
	bad := filepath.Join(n.dir, "brokerd-2.0.0")
	if err := os.WriteFile(bad, []byte("#!/bin/sh\necho 'panic: the new release' >&2\nexit 70\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	asked := filepath.Join(n.dir, "upgrade")
	go func() { // what ssh and systemd do
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
			id, err := os.ReadFile(asked)
			if err != nil || len(id) == 0 {
				continue
			}
			release(strings.TrimSpace(string(id)), bad)
			x := n.Node(strings.TrimSpace(string(id)))
			if err := x.Stop(); err != nil {
				t.Error(err)
			}
			if err := x.Start(); err != nil {
				t.Error(err)
			}
			<-x.Exited()
			_ = os.Remove(asked) // who asked waits for that
			return
		}
	}()
	out, err := n.shell("brokerctl rolling upgrade --step-timeout 10s --to 2.0.0 --exec " +
		`'echo {{.Node}} >upgrade && while [ -e upgrade ]; do sleep 0.02; done'`)
	if err == nil {
		t.Fatalf("the upgrade goes on:\n%s", out)
	}
	at := strings.Index(out, "stopped at node ")
	if at < 0 {
		t.Fatalf("the upgrade does not say where it stopped:\n%s", out)
	}
	t.Log(out)
	n.words["NODE"], n.words["PACKAGE"] = out[at+16:at+18], "brokerd_0.1.0-1_amd64.deb"
	n.aptGet = func(node string) error { release(node, programs+"/brokerd"); return nil }
	n.ctl("message pub orders four")
	n.shows(`the new release`)
	n.next()
	n.next()
	n.next()
	n.shows(healthy)
	if got := n.depth(); got != "4" {
		t.Errorf("%s messages, want 4", got)
	}
	n.cured()
}

func TestNightATopicIsDeleted(t *testing.T) {
	n := newNight(t, "topic-deleted", nil)
	n.topic("one", "two", "three")
	n.ctl("topic delete orders --yes")
	n.shows(`(?m)^orders `)
	n.next()
	n.shows(`(?m)^orders .* 3 `)
	n.cured()
}

func TestNightATopicIsDeletedAndCreated(t *testing.T) {
	n := newNight(t, "topic-deleted-and-created", nil)
	n.topic("one", "two", "three")
	n.ctl("topic delete orders --yes")
	n.ctl("message pub orders newer")
	if out, err := n.shell("brokerctl topic restore orders"); err == nil {
		t.Errorf("restored over another:\n%s", out)
	}
	n.words["INCARNATION"] = n.shows(`(?m)^orders .* (\d+) +n1,n2,n3$`)[1]
	n.next()
	n.next()
	n.shows(`(?m)^orders .* 3 `)
	n.cured()
}

func TestNightACertificateExpires(t *testing.T) {
	by := newAuthority(t)
	by.life = -time.Minute
	by.issue("node", by)
	at, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	n := newNight(t, "certificate-expired", func(_ string, o *nodes.Options) {
		o.ArgsOf = func(id string) []string {
			return map[string][]string{"n1": {"--https-address", at[0].HTTP, "--tls-cert", by.path("node.pem"), "--tls-key", by.path("node.key")}}[id]
		}
	})
	by.life = time.Hour
	by.issue("new", by)
	n.words["ADDRESS"], n.words["CA"] = at[0].HTTP, by.path("ca.pem")
	n.words["CERT"], n.words["KEY"] = by.path("node.pem"), by.path("node.key")
	n.words["NEW-CERT"], n.words["NEW-KEY"] = by.path("new.pem"), by.path("new.key")
	if out, err := n.shell("brokerctl cluster health"); exitCode(err) != 11 || !strings.Contains(out, "certificate_ended") || !strings.Contains(out, "n1 (server 20") {
		t.Errorf("the health does not name the node: %v\n%s", err, out)
	}
	n.shows(`certificate has expired`)
	n.next()
	n.next()
	n.next()
	n.shows(`^ready`)
	n.cured()
}

func TestNightTwoOfThreeAreLost(t *testing.T) {
	n := newNight(t, "two-lost", nil)
	n.topic("one", "two", "three")
	n.kills("n2")
	n.kills("n3")
	for _, id := range []string{"n2", "n3"} {
		if err := n.Node(id).Wipe(); err != nil {
			t.Fatal(err)
		}
	}
	n.words["DIR"] = n.Node("n1").Data()
	n.next()
	n.belongsToService("n1")
	out, err := n.try()
	if err == nil || !strings.Contains(out, "orders/0") {
		t.Errorf("what would be lost: %v\n%s", err, out)
	}
	n.next()
	n.readableByService("n1")
	n.systemctl = n.serviceOfAll
	n.next()
	n.next()
	n.shows(healthy)
	if got := n.depth(); got != "3" {
		t.Errorf("%s messages, want 3", got)
	}
	n.ctl("message pub orders four")
	n.cured()
}

// serviceUser is the owner of the data directory of a packaged node.
const serviceUser = 65534

// belongsToService gives the data of a node to another user than root, as whom this test perhaps runs.
func (n *night) belongsToService(node string) {
	n.Helper()
	if os.Geteuid() != 0 {
		return
	}
	for up := n.dir; up != filepath.Dir(up) && up != os.TempDir(); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o711); err != nil { //nolint:gosec // the user has to reach it
			n.Fatal(err)
		}
	}
	err := filepath.WalkDir(n.Node(node).Data(), func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, serviceUser, serviceUser))
	})
	if err != nil {
		n.Fatal(err)
	}
}

// readableByService checks that nothing that root has done with the data of a node keeps the service from it.
func (n *night) readableByService(node string) {
	n.Helper()
	if os.Geteuid() != 0 {
		return
	}
	err := filepath.WalkDir(n.Node(node).Data(), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != serviceUser {
			err = fmt.Errorf("%s belongs to root", path)
		}
		return err
	})
	if err != nil {
		n.Error(err)
	}
}

// serviceOfAll is systemctl of each of three nodes.
func (n *night) serviceOfAll(_, verb, unit string) (string, error) {
	for _, id := range []string{"n1", "n2", "n3"} {
		if out, err := n.service(id, verb, unit); err != nil {
			return out, err
		}
	}
	return "", nil
}

func TestNightTheClusterIsLost(t *testing.T) {
	n := newNight(t, "cluster-lost", nil)
	n.topic()
	n.ctl("channel create orders/all")
	for p := range 3 {
		var bodies strings.Builder
		for i := range 40 {
			fmt.Fprintf(&bodies, "%d.%d\n", p, i)
		}
		if r, err := n.posts(fmt.Sprintf("/mpub?topic=orders&partition=%d", p), bodies.String()); err != nil || r.code != 200 {
			t.Fatalf("%+v %v", r, err)
		}
	}
	w := n.consumer("n1", "worker-7", 60)
	var got []message
	for range 60 {
		got = append(got, w.message())
	}
	w.send("RDY 0\n")
	for i, m := range got {
		if i%3 != 1 { // with gaps
			w.fin(m)
		}
	}
	eventually(t, "some are finished", func() bool {
		return strings.TrimSpace(n.ctl("channel lag orders/invoice -o 'go-template={{range .channels}}{{.depth}} {{.in_flight}}{{end}}'")) == "60 20"
	})
	_ = w.Close()
	eventually(t, "the others are given back", func() bool { return n.depth() == "80" })
	pending := func() string {
		t.Helper()
		var all strings.Builder
		for _, channel := range []string{"all", "invoice"} {
			for p := range 3 {
				fmt.Fprintf(&all, "%s/%d:%s\n", channel, p, n.ctl(fmt.Sprintf(
					"message peek orders/%s --partition %d -n 1000 -o 'go-template={{range .messages}} {{.text}}{{end}}'", channel, p)))
			}
		}
		return all.String()
	}
	before := pending()
	if count := len(strings.Fields(before)); count != 6+120+80 {
		t.Fatalf("%d messages are pending:\n%s", count-6, before)
	}
	n.words["DIR"] = filepath.Join(n.dir, "backups")
	n.ctl("backup create backups")
	n.Kill()
	for _, x := range n.Nodes {
		if err := x.Wipe(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Start(t.Context()); err != nil { // the new cluster
		t.Fatal(err)
	}
	n.shows(`complete`)
	n.next()
	n.shows(`orders`)
	n.next()
	n.shows(`(?m)^orders +invoice +80 `)
	n.shows(healthy)
	if after := pending(); after != before {
		t.Errorf("restored:\n%s\nwant\n%s", after, before)
	}
	n.ctl("partition verify orders")
	n.cured()
}

func TestNightAnUncleanElection(t *testing.T) {
	n := newNight(t, "unclean-election", nil)
	n.words["TOPIC"], n.words["PARTITION"] = "orders", "0"
	n.ctl("topic create orders --replicas 2 --min-isr 1")
	where := strings.Fields(n.ctl("partition describe orders/0 -o 'go-template={{.leader}}{{range .isr}} {{.}}{{end}}'"))
	leader, follower := where[0], where[1]
	if follower == leader {
		follower = where[2]
	}
	n.ctl("message pub orders one")
	n.kills(follower)
	eventually(t, "the follower is out of sync", func() bool { return strings.Contains(n.ctl("partition list --under-replicated"), "orders") })
	n.ctl("message pub orders two") // only the leader has it
	n.kills(leader)
	if err := n.Node(leader).Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := n.Node(follower).Start(); err != nil {
		t.Fatal(err)
	}
	n.words["NODE"] = follower
	n.shows(`(?m)^orders +0 |orders/0`)
	n.shows(follower)
	n.next()
	n.shows(`(?m)^orders/0 +` + follower + `|LEADER`)
	n.ctl("message pub orders three")
	n.cured()
}
