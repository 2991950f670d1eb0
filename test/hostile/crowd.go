package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/brokerd/brokerd/test/nodes"
)

// begin starts an attack, in a process of the lowest priority.
func begin(v *victim, a attack) (end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := exec.Command("nice", "-n", "19", self, "-attack", a.name, "-tcp", v.node.TCP, "-http", v.node.HTTP)
	process.Stderr = os.Stderr
	process.SysProcAttr = nodes.Child()
	if err := process.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = process.Process.Kill() // it may have ended
		_ = process.Wait()
	}, nil
}

// fight attacks until the process is killed.
func fight(ctx context.Context, name string, at target) error {
	all := slices.Concat(attacks, guarded)
	i := slices.IndexFunc(all, func(a attack) bool { return a.name == name })
	if i < 0 {
		return fmt.Errorf("unknown attack %q", name)
	}
	all[i].fight(ctx, at)
	return nil
}
