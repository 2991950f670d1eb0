package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/test/network"
	"github.com/brokerd/brokerd/test/nodes"
)

// errNoNamespace means that this machine does not allow to cut links.
var errNoNamespace = errors.New("no network namespace")

// enterNamespace plays a scenario in a process that has network and mount namespaces of its own:
// what the scenario does to the network ends with that process.
func enterNamespace(ctx context.Context, o options, s scenario) error {
	if err := network.Available(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNoNamespace, err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-in-namespace", "-broker", o.broker, "-scenarios", s.name,
		"-seed", strconv.FormatUint(o.seed, 10), "-pause", o.pause.String(), "-nodes", strconv.Itoa(o.nodes),
		"-keep="+strconv.FormatBool(o.keep), "-v="+strconv.FormatBool(o.verbose))
	var said strings.Builder // why it failed, on its last line
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = o.out, &said, network.Private()
	err = cmd.Run()
	if err != nil {
		fmt.Fprint(o.out, said.String())
		if _, why, found := strings.Cut(said.String(), failedPrefix(s, o.seed)); found {
			err = fmt.Errorf("%s (%w)", strings.TrimSpace(why), err)
		}
	}
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == exitLate {
		return &nodes.Late{Err: err}
	}
	return err
}
