// Package network connects the nodes of a cluster, each in a network namespace, by a switch in user
// space, which delays, loses, duplicates and reorders packets, bounds their rate and cuts links: the
// kernel's netem is not available everywhere.
//
// It knows addresses and packets, not what they carry. It needs root, the ip command and /dev/net/tun.
// A cut or a lost packet tells neither end anything.
package network

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

// Weather is what happens to the packets of one direction of a link. The zero Weather forwards all.
type Weather struct {
	Delay, Jitter   time.Duration // the delay of a packet is Delay plus or minus Jitter: packets overtake others
	Loss, Duplicate float64       // parts of the packets
	Rate            float64       // bytes per second; 0: no limit
	Largest         int           // larger packets are lost, as behind a tunnel that reports nothing; 0: none is
	Cut             bool          // all are lost
}

// queued is how long packets wait at most for a link of a limited rate; further ones are lost.
const queued = 300 * time.Millisecond

// The addresses: node i, counted from 0, has subnet plus i+1.
const (
	subnet  = "10.77.0."
	clients = 254
	device  = "link0"
)

// edge is one direction of a link, by the last bytes of the addresses.
type edge struct{ from, to byte }

// Network is the links between nodes, numbered from 0, and to the clients in the namespace of this
// process. Links to clients are always clear. Its methods are safe for concurrent use.
type Network struct {
	n     int
	ports map[byte]*os.File // constant after New

	mu      sync.Mutex // guards the fields below
	rng     *rand.Rand
	weather map[edge]Weather
	free    map[edge]time.Time // when a link of a limited rate has sent what waits
}

// Private returns the attributes of a process with network and mount namespaces of its own: what New
// does there ends with that process.
func Private() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
}

// Available reports why this machine cannot have a Network; nil: it can.
func Available(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root can create a network namespace")
	}
	try := exec.CommandContext(ctx, "ip", "tuntap", "add", "dev", device, "mode", "tun")
	try.SysProcAttr = Private()
	if out, err := try.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// New creates namespaces for n nodes inside that of this process, which must be private. Random numbers
// follow from the seed.
func New(n int, seed uint64) (*Network, error) {
	w := &Network{
		n: n, ports: map[byte]*os.File{}, rng: rand.New(rand.NewPCG(seed, 11)), weather: map[edge]Weather{}, free: map[edge]time.Time{},
	}
	for _, line := range []string{"mount --make-rprivate /", "mount -t tmpfs none /run", "ip link set lo up"} {
		if err := command(line); err != nil {
			return nil, err
		}
	}
	for i := range n {
		if err := command("ip netns add " + namespace(i)); err != nil {
			return nil, err
		}
		if err := command("ip -n " + namespace(i) + " link set lo up"); err != nil {
			return nil, err
		}
		if err := w.plug(namespace(i), byte(i+1)); err != nil {
			return nil, err
		}
	}
	if err := w.plug("", clients); err != nil {
		return nil, err
	}
	for _, port := range w.ports {
		go w.forwardFrom(port)
	}
	return w, nil
}

// plug connects a namespace to the switch; "" is that of this process.
func (w *Network) plug(namespace string, last byte) error {
	port, err := openTun(namespace)
	if err != nil {
		return fmt.Errorf("network device of %q: %w", namespace, err)
	}
	w.ports[last] = port
	inside := ""
	if namespace != "" {
		inside = "-n " + namespace + " "
	}
	for _, what := range []string{
		fmt.Sprintf("addr add %s%d/24 dev %s", subnet, last, device), "link set " + device + " txqueuelen 5000", "link set " + device + " up",
	} {
		if err := command("ip " + inside + what); err != nil {
			return err
		}
	}
	return nil
}

func namespace(i int) string { return fmt.Sprintf("node%d", i+1) }

// command runs a command line.
func command(line string) error {
	words := strings.Fields(line)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Addresses returns the addresses at which the nodes serve.
func (w *Network) Addresses() []nodes.Addresses {
	all := make([]nodes.Addresses, w.n)
	for i := range all {
		host := fmt.Sprint(subnet, i+1)
		all[i] = nodes.Addresses{TCP: host + ":4150", HTTP: host + ":4151", Lookup: host + ":4161", Cluster: host + ":4152"}
	}
	return all
}

// Wrap returns the command that runs another in the namespace of a node.
func (w *Network) Wrap(i int) []string { return []string{"ip", "netns", "exec", namespace(i)} }

// Set changes what happens to packets from one node to another.
func (w *Network) Set(from, to int, is Weather) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.weather[edge{byte(from + 1), byte(to + 1)}] = is
}

// Around changes what happens to packets between a node and all others: those that it sends, those that it
// receives, or both.
func (w *Network) Around(i int, sent, received bool, is Weather) {
	for j := range w.n {
		if j != i && sent {
			w.Set(i, j, is)
		}
		if j != i && received {
			w.Set(j, i, is)
		}
	}
}

// Everywhere changes what happens to packets between nodes.
func (w *Network) Everywhere(is Weather) {
	for i := range w.n {
		w.Around(i, true, false, is)
	}
}

// Heal makes all links clear again.
func (w *Network) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.weather)
	clear(w.free)
}

// forwardFrom forwards what a namespace sends.
func (w *Network) forwardFrom(port *os.File) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := port.Read(buffer)
		if err != nil {
			return // the process ends
		}
		const header = 20
		if n < header || buffer[0]>>4 != 4 {
			continue // not IPv4
		}
		source, target := binary.BigEndian.Uint32(buffer[12:]), binary.BigEndian.Uint32(buffer[16:])
		w.forward(edge{byte(source), byte(target)}, buffer[:n])
	}
}

// forward sends a packet, at once or later, as often as the weather says.
func (w *Network) forward(e edge, packet []byte) {
	to := w.ports[e.to]
	if to == nil {
		return
	}
	var own []byte
	for _, delay := range w.delays(e, len(packet), time.Now()) {
		if delay <= 0 {
			_, _ = to.Write(packet) // a full queue loses packets
			continue
		}
		if own == nil {
			own = append(own, packet...)
		}
		time.AfterFunc(delay, func() { _, _ = to.Write(own) })
	}
}

// delays returns the delay of each copy of a packet; none: it is lost.
func (w *Network) delays(e edge, size int, now time.Time) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	is, some := w.weather[e]
	if !some {
		return []time.Duration{0}
	}
	if is.Cut || w.rng.Float64() < is.Loss || is.Largest > 0 && size > is.Largest {
		return nil
	}
	copies := 1
	if w.rng.Float64() < is.Duplicate {
		copies++
	}
	var all []time.Duration
	for range copies {
		d := is.Delay + time.Duration((2*w.rng.Float64()-1)*float64(is.Jitter))
		if is.Rate > 0 {
			free := w.free[e]
			if free.Before(now) {
				free = now
			}
			if free.Sub(now) > queued {
				continue
			}
			w.free[e] = free.Add(time.Duration(float64(size) / is.Rate * float64(time.Second)))
			d += w.free[e].Sub(now)
		}
		all = append(all, d)
	}
	return all
}
