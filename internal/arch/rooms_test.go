package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rooms are the packages with a design page: DESIGN.md, or doc.go if that suffices. The page
// numbers the invariants and names the place to start reading.
var rooms = []string{
	"pkg/admin/web", "pkg/broker", "pkg/channel", "pkg/cluster", "pkg/cluster/controller", "pkg/cluster/formation", "pkg/commitlog",
	"pkg/consume", "pkg/coord", "pkg/coord/replication", "pkg/directory", "pkg/forward", "pkg/host", "pkg/meta", "pkg/meta/raftstore",
	"pkg/nsq", "pkg/operate", "pkg/peer", "pkg/positions", "pkg/publish", "pkg/quarantine", "pkg/redo", "pkg/relay", "pkg/server", "pkg/topic",
}

// screen is the maximum number of lines of a design page.
const screen = 45

func TestEachRoomHasPromisesAndAStartingPoint(t *testing.T) {
	for _, room := range rooms {
		page := filepath.Join(root, room, "DESIGN.md")
		text, err := os.ReadFile(page)
		if err != nil {
			page = filepath.Join(root, room, "doc.go")
			text, err = os.ReadFile(page)
		}
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{"1. ", "2. ", "Start at "} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s does not contain %q", page, want)
			}
		}
		if n := strings.Count(string(text), "\n"); n > screen {
			t.Errorf("%s has %d lines, over %d", page, n, screen)
		}
	}
}
