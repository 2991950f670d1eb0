package main

import (
	"strings"
	"testing"
)

// TestRestoreThatIsTriedOutSaysSo: without that, it looks as if the topic were restored.
func TestRestoreThatIsTriedOutSaysSo(t *testing.T) {
	broker := newFakeBroker(t)
	for _, flags := range []string{"", " --dry-run"} {
		r := broker.brokerctl(t, strings.Fields("topic restore orders"+flags)...)
		if said := strings.HasSuffix(r.stdout, "\ndry run: nothing was changed\n"); r.exit != exitOK || said != (flags != "") {
			t.Errorf("%q: %d %s", flags, r.exit, r.stdout)
		}
	}
}
