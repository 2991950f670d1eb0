package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestProgramsInheritTheTimerSlack(t *testing.T) {
	slack := func(d time.Duration) (ns string) {
		err := withSlack(d, func() error {
			out, err := exec.Command("cat", "/proc/self/timerslack_ns").CombinedOutput()
			ns = strings.TrimSpace(string(out))
			return err
		})
		if err != nil {
			t.Skipf("%v: %s", err, ns)
		}
		return ns
	}
	before := slack(0)
	if got := slack(time.Millisecond); got != "1000000" {
		t.Errorf("a program has a timer slack of %s ns", got)
	}
	if got := slack(0); got != before {
		t.Errorf("a later program has a timer slack of %s ns, was %s", got, before)
	}
}
