package stall

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/logtest"
)

// TestStallsAreReported: five seconds after progress stops, the log, the health and the counters
// report it. When it resumes, the report ends.
func TestStallsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text logtest.Journal
		s := New(slog.New(slog.NewTextHandler(&text, nil)), 4*time.Second)
		go s.Run(t.Context())
		role := Key{Role, "t", 3, ""}
		s.Begin(role, time.Now(), "the disk does not answer")
		time.Sleep(time.Second)
		s.Begin(Key{Follower, "t", 4, "n2"}, time.Now(), "not connected to the follower's node")
		s.Begin(role, time.Now(), "still not")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if r := s.Reasons(time.Now()); len(r) > 0 || text.Has("progress") {
			t.Errorf("said after three seconds: %+v, %q", r, text.Lines())
		}
		time.Sleep(2*time.Second + time.Millisecond)
		synctest.Wait()
		r := s.Reasons(time.Now())
		if len(r) != 2 || r[0].Code != "role_change_stalled" || !strings.Contains(r[0].What, "t/3 (still not)") ||
			r[1].Code != "replication_stalled" || !strings.Contains(r[1].What, "t/4 at n2 (not connected to the follower's node)") {
			t.Errorf("health says %+v", r)
		}
		if n := s.Counts(time.Now()); n["role_change_stalled"] != 1 || n["replication_stalled"] != 1 {
			t.Errorf("counted: %v", n)
		}
		if !text.Has("level=ERROR", "no progress", "still not", "partition=3") {
			t.Errorf("the log does not say which partition stalls and why: %q", text.Lines())
		}
		s.End(role)
		synctest.Wait()
		if n := s.Counts(time.Now()); n["role_change_stalled"] != 0 || n["replication_stalled"] != 1 {
			t.Errorf("after the end: %v", n)
		}
		if !text.Has("progress resumed", "partition=3") {
			t.Errorf("the log does not say that it is over: %q", text.Lines())
		}
	})
}
