package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/brokerd/brokerd/test/nodes"
)

// errNoNamespace means that this machine does not allow to cut links.
var errNoNamespace = errors.New("no network namespace")

// enterNamespace plays a scenario in a process that has network and mount namespaces of its own:
// what the scenario does to the network ends with that process.
func enterNamespace(ctx context.Context, o options, s scenario) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: only root can create one", errNoNamespace)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("%w: %w", errNoNamespace, err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	private := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	try := exec.CommandContext(ctx, "ip", "link", "add", "br0", "type", "bridge")
	try.SysProcAttr = private
	if out, err := try.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %w: %s", errNoNamespace, err, strings.TrimSpace(string(out)))
	}
	cmd := exec.CommandContext(ctx, self, "-in-namespace", "-broker", o.broker, "-scenarios", s.name,
		"-seed", strconv.FormatUint(o.seed, 10), "-pause", o.pause.String(), "-nodes", strconv.Itoa(o.nodes),
		"-keep="+strconv.FormatBool(o.keep), "-v="+strconv.FormatBool(o.verbose))
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = o.out, o.out, private
	err = cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == exitLate {
		return &nodes.Late{Err: err}
	}
	return err
}

// The network of a run: every node is in a namespace, behind a bridge with the clients.
const (
	subnet    = "10.77.0."
	clientsIP = subnet + "254"
	// nowhere is a link-layer address without an interface. Data sent to it is lost, and the
	// sender gets no error.
	nowhere = "02:00:00:00:00:01"
)

// network is the links between nodes, numbered from 0. It is for one goroutine at a time.
type network struct {
	n    int
	cuts map[[2]int]bool // from the first node to the second
}

// newNetwork creates n namespaces inside that of this process.
func newNetwork(n int) (*network, error) {
	setup := []string{
		"mount --make-rprivate /", "mount -t tmpfs none /run", "ip link set lo up",
		"ip link add br0 type bridge", "ip link set br0 up", "ip addr add " + clientsIP + "/24 dev br0",
	}
	for i := range n {
		ns := namespace(i)
		setup = append(setup, "ip netns add "+ns,
			"ip link add veth-"+ns+" type veth peer name eth0 netns "+ns,
			"ip link set veth-"+ns+" master br0 up",
			"ip -n "+ns+" link set lo up", "ip -n "+ns+" link set eth0 up",
			"ip -n "+ns+" addr add "+address(i)+"/24 dev eth0")
	}
	for _, line := range setup {
		if err := command(line); err != nil {
			return nil, err
		}
	}
	return &network{n: n, cuts: map[[2]int]bool{}}, nil
}

func namespace(i int) string { return fmt.Sprintf("node%d", i+1) }
func address(i int) string   { return fmt.Sprintf("%s%d", subnet, i+1) }

// command runs a command line.
func command(line string) error {
	words := strings.Fields(line)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// addresses returns the addresses at which the nodes serve.
func (w *network) addresses() []nodes.Addresses {
	all := make([]nodes.Addresses, w.n)
	for i := range all {
		all[i] = nodes.Addresses{
			TCP: address(i) + ":4150", HTTP: address(i) + ":4151", Lookup: address(i) + ":4161", Cluster: address(i) + ":4152",
		}
	}
	return all
}

// wrap returns the command that runs another in the namespace of a node.
func (w *network) wrap(i int) []string { return []string{"ip", "netns", "exec", namespace(i)} }

// silence drops what one node sends to another, by a wrong link-layer address at the sender. Both
// nodes still believe that they are connected.
func (w *network) silence(from, to int) error {
	w.cuts[[2]int{from, to}] = true
	return command(fmt.Sprintf("ip -n %s neigh replace %s lladdr %s dev eth0 nud permanent", namespace(from), address(to), nowhere))
}

// cut loses everything between two nodes.
func (w *network) cut(a, b int) error { return errors.Join(w.silence(a, b), w.silence(b, a)) }

// isolate cuts a node off from all others. The clients still reach it.
func (w *network) isolate(i int) error { return errors.Join(w.mute(i), w.deafen(i)) }

// mute drops what a node sends to the other nodes.
func (w *network) mute(i int) error {
	var errs []error
	for j := range w.n {
		if j != i {
			errs = append(errs, w.silence(i, j))
		}
	}
	return errors.Join(errs...)
}

// deafen drops what the other nodes send to a node.
func (w *network) deafen(i int) error {
	var errs []error
	for j := range w.n {
		if j != i {
			errs = append(errs, w.silence(j, i))
		}
	}
	return errors.Join(errs...)
}

// heal ends all cuts.
func (w *network) heal() error {
	var errs []error
	for c := range w.cuts {
		errs = append(errs, command(fmt.Sprintf("ip -n %s neigh del %s dev eth0", namespace(c[0]), address(c[1]))))
	}
	clear(w.cuts)
	return errors.Join(errs...)
}
