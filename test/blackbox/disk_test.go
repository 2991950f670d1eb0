package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a file system of a size, which only root can.
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

// On a full disk publishes are refused with a reason and consuming continues.
// When there is room again all is well by itself.
// A node has more busy partitions than it may open files: none is refused, and nothing is
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

func TestAFullDisk(t *testing.T) {
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
	for refused := 0; refused < 2; { // it is not fatal
		p.send("NOP\n" + pub("t", body))
		switch kind, data, err := p.next(patience); {
		case err == nil && kind == frameError && strings.HasPrefix(data, "E_PUB_FAILED PUB failed"):
			refused++
		case err == nil && data == "OK" && published < 1000:
			published++ // a segment that ended has given back what it had reserved
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
