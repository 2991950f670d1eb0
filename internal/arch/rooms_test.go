package arch

import (
	"os"
	"os/exec"
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

const (
	// screen is the maximum number of lines of a design page.
	screen = 45
	// minRooms is the minimum number of packages below pkg that the test of go doc must find.
	minRooms = 60
)

// longDocs are the packages whose go doc exceeds a screen, with their ceilings, which only
// decrease, and the reason.
var longDocs = map[string]int{
	"pkg/admin/api": 197, // for programs outside: the types of /v1
	"pkg/client":    90,  // for programs outside
	"pkg/meta":      121, // the commands, each a type
}

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

// TestGoDocOfEachRoomFitsAScreen checks every package below pkg.
func TestGoDocOfEachRoomFitsAScreen(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go doc for each package")
	}
	dirs := map[string]bool{}
	for _, s := range sources(t) {
		if strings.HasPrefix(s.dir, "pkg/") && !s.test {
			dirs[s.dir] = true
		}
	}
	if len(dirs) < minRooms {
		t.Fatalf("found only %d packages", len(dirs))
	}
	for dir := range dirs {
		out, err := exec.CommandContext(t.Context(), "go", "doc", "-C", root, "./"+dir).Output()
		if err != nil {
			t.Errorf("go doc ./%s: %v", dir, err)
			continue
		}
		n, most := strings.Count(string(out), "\n"), max(screen, longDocs[dir])
		switch {
		case n > most:
			t.Errorf("go doc ./%s has %d lines, limit is %d: unexport what no other package uses, or move it out", dir, n, most)
		case longDocs[dir] != 0 && n <= screen:
			t.Errorf("go doc ./%s has %d lines: remove it from longDocs", dir, n)
		}
	}
}
