package blackbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a file system of the given size, which requires root.
func smallDisk(t *testing.T, mib int) (dir string, resize func(mib int)) {
	t.Helper()
	dir = t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("no small disk here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func(mib int) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%dm", mib)); err != nil {
			t.Fatal(err)
		}
	}
}

// A node has more busy partitions than file descriptors: no publish is refused, and nothing is
// lost. (A process that may raise its limit does so, and has enough.)
func TestMorePartitionsThanDescriptors(t *testing.T) {
	t.Parallel()
	const topics, rounds = 150, 3
	n := newNode(t, "brokerd", nodeArgs(filepath.Join(t.TempDir(), "data"))...)
	n.descriptors = 256
	n.start()
	publish := func() {
		w := n.dial()
		for range rounds {
			for i := range topics {
				w.send(pub(fmt.Sprint("t", i), "x"))
			}
			for range topics {
				w.ok()
			}
		}
	}
	publish()
	n.restart(n.kill)
	publish()
	all := n.topics()
	if len(all) != topics {
		t.Errorf("%d topics", len(all))
	}
	for _, topic := range all {
		if topic.Depth != 2*rounds {
			t.Errorf("%s has %d messages", topic.Name, topic.Depth)
		}
	}
	n.stop()
}

// On a full disk publishes are refused with a reason, and consuming continues. When space is
// available again, the node recovers automatically.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk, resize := smallDisk(t, 64)
	n := startNodeOn(t, filepath.Join(disk, "data"), "--segment-size", "1MiB", "--disk-reserve", "16MiB")
	w := n.consumer("t", "c", 1, "{}")
	body := strings.Repeat("x", 256<<10)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	published := 0
	for ; ; published++ {
		r := n.http("POST", "/pub?topic=t", body)
		if r.code != 200 {
			if r.code != 503 || r.body != `{"message":"DISK_FULL"}` {
				t.Errorf("refused with %d %s", r.code, r.body)
			}
			break
		}
		if published > 1000 {
			t.Fatal("the disk does not fill")
		}
		<-tick.C
	}
	p := n.dial()
	for refused := 0; refused < 2; { // the error is not fatal
		p.send("NOP\n" + pub("t", body))
		switch kind, data, err := p.next(patience); {
		case err == nil && kind == frameError && strings.HasPrefix(data, "E_PUB_FAILED PUB failed"):
			refused++
		case err == nil && data == "OK" && published < 1000:
			published++ // a completed segment has released its preallocated space
		default:
			t.Fatalf("frame %d %q %v, want a refusal", kind, data, err)
		}
	}
	eventually(t, "the node says so", func() bool {
		return n.http("GET", "/ping", "").code == 500 && n.http("GET", "/readyz", "").code == 503
	})
	if code, out, _ := run(t, "brokerctl", "--addr", "http://"+n.address("HTTP"), "cluster", "health"); code != 10 {
		t.Errorf("cluster health: exit code %d: %s", code, out)
	}
	for range 10 {
		w.fin(w.message())
	}
	eventually(t, "messages are finished", func() bool { return n.channel("t", "c").Depth <= int64(published-10) })

	_ = w.Close()
	n.restart(n.kill)
	w = n.consumer("t", "c", 2500, "{}")
	if m := w.message(); len(m.body) != len(body) {
		t.Errorf("%d bytes", len(m.body))
	}
	resize(256)
	eventually(t, "publishes are taken again", func() bool {
		return n.http("POST", "/pub?topic=t", "room").code == 200 && n.http("GET", "/ping", "").code == 200
	})
	for {
		if m := w.message(); m.body == "room" {
			break
		}
	}
	n.stop()
}

// fillDisk writes a file until its disk has no space left.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<10); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// Another program fills the disk of a node to the last byte. Operations that free space succeed.
// Those that need space are refused with an error that names the node, the directory and the
// remedy. A starting node either serves or names the disk.
func TestFullDiskOfTheMetadata(t *testing.T) {
	t.Parallel()
	disk, _ := smallDisk(t, 24)
	data := filepath.Join(disk, "data")
	n := startNodeOn(t, data)
	for _, topic := range []string{"old", "kept", "t", "u"} {
		n.ctl(0, "topic", "create", topic)
		n.post("/pub?topic="+topic, strings.Repeat("x", 1<<10))
	}
	for _, channel := range []string{"u/c", "t/c"} {
		n.ctl(0, "channel", "create", channel)
	}
	n.ctl(0, "topic", "delete", "old", "--yes")
	incarnation := regexp.MustCompile(`"incarnation": *(\d+)`).FindStringSubmatch(n.ctl(0, "topic", "list", "--deleted", "-o", "json"))[1]
	fillDisk(t, filepath.Join(disk, "fill1"))
	for paused := "pause"; n.try("channel", paused, "t/c") == 0; { // the metadata fills the rest of its file
		paused = map[string]string{"pause": "resume", "resume": "pause"}[paused]
	}
	fillDisk(t, filepath.Join(disk, "fill2"))

	for _, grows := range [][]string{{"topic", "create", "new"}, {"topic", "create", "new", "--dry-run"}, {"channel", "create", "t/c2"}, {"channel", "create", "t/c2", "--dry-run"}, {"channel", "pause", "u/c"}} {
		out := n.ctl(4, grows...)
		for _, want := range []string{"metadata disk full on node n1", filepath.Join(data, "meta"), "free on the disk", "--purge"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q does not say %q: %s", grows, want, out)
			}
		}
	}
	if out := n.ctl(10, "cluster", "health"); !strings.Contains(out, "metadata_disk_full") {
		t.Errorf("cluster health: %s", out)
	}
	if r := n.http("GET", "/readyz", ""); r.code != 503 || !strings.Contains(r.body, "metadata_disk_full") {
		t.Errorf("/readyz: %d %s", r.code, r.body)
	}
	n.ctl(0, "topic", "delete", "old", "--purge", "--incarnation", incarnation, "--yes")
	n.ctl(0, "channel", "empty", "u/c", "--yes")
	n.ctl(0, "topic", "delete", "t", "--purge", "--yes")

	n.kill()
	fillDisk(t, filepath.Join(disk, "fill3"))
	n.start()
	eventually(t, "the node has said that the disk is full", func() bool { return strings.Contains(n.logged(), "metadata disk full") })
	n.ctl(0, "topic", "delete", "u", "--purge", "--yes")

	n.kill() // with no space left
	if err := os.Remove(filepath.Join(data, "meta", "reserve")); err != nil {
		t.Fatal(err)
	}
	fillDisk(t, filepath.Join(disk, "fill4"))
	n.launch()
	eventually(t, "the node names the disk", func() bool {
		return strings.Contains(n.logged(), "cannot register node start") || strings.Contains(n.logged(), "no space left on device")
	})
	for _, name := range []string{"fill1", "fill2", "fill3", "fill4"} {
		if err := os.Remove(filepath.Join(disk, name)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-n.ready:
	case <-n.exited: // the metadata leader could not store the first entry of its term; the unit starts the node again
		n.launch()
		<-n.ready
	}
	eventually(t, "all is well", func() bool { return n.http("GET", "/readyz", "").code == 200 })
	n.ctl(0, "topic", "create", "new")
	if topics := n.topics(); len(topics) != 2 {
		t.Errorf("topics: %+v", topics)
	}
	n.stop()
}

// A node that finds no space at its first start names the directory.
func TestFirstStartWithoutSpace(t *testing.T) {
	t.Parallel()
	disk, _ := smallDisk(t, 1)
	fillDisk(t, filepath.Join(disk, "fill"))
	if err := os.Truncate(filepath.Join(disk, "fill"), 900<<10); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(disk, "data")
	n := newNode(t, "brokerd", nodeArgs(data)...)
	n.launch()
	if code := n.wait(); code != 74 || !strings.Contains(n.logged(), "metadata disk full on node n1") || !strings.Contains(n.logged(), data) {
		t.Errorf("exit code %d", code)
	}
}
