package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rooms are the packages that someone enters by their doc.go: it numbers the invariants
// and says where to start reading.
var rooms = []string{
	"pkg/broker", "pkg/channel", "pkg/cluster", "pkg/cluster/controller", "pkg/cluster/formation", "pkg/commitlog", "pkg/consume",
	"pkg/coord", "pkg/coord/replication", "pkg/directory", "pkg/forward", "pkg/host", "pkg/meta", "pkg/meta/raftstore", "pkg/operate",
	"pkg/peer", "pkg/publish", "pkg/redo", "pkg/relay", "pkg/server",
}

// screen is how many lines a page about a room may have; a longer one is listed with its
// ceiling, which only falls.
const screen = 40

var longPages = map[string]int{"pkg/redo": 62}

func TestEachRoomSaysWhatItPromisesAndWhereToStart(t *testing.T) {
	for _, room := range rooms {
		raw, err := os.ReadFile(filepath.Join("..", "..", room, "doc.go"))
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(raw)
		for _, want := range []string{"//  1. ", "//  2. ", "Start at "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s/doc.go does not contain %q", room, want)
			}
		}
		if n, most := strings.Count(text, "\n"), max(screen, longPages[room]); n > most {
			t.Errorf("%s/doc.go has %d lines, over %d", room, n, most)
		}
	}
}
