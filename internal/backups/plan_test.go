package backups

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// TestPlanFinishesFinishedMessages compares the plan, for random runs of messages, random pending ones and messages of
// others between the runs, with a naive list of messages.
func TestPlanFinishesFinishedMessages(t *testing.T) {
	rnd := testrand.New(t)
	for range 2000 {
		var runs []moved
		var pending [][2]uint64
		waits := map[uint64]bool{} // by the new position of a message
		was, end := rnd.Uint64N(5), uint64(0)
		for range rnd.IntN(5) {
			is := end + rnd.Uint64N(3)
			for o := end; o < is; o++ { // published by others
				waits[o] = true
			}
			n := 1 + rnd.Uint64N(6)
			runs = append(runs, moved{was, is, n})
			for k := range n {
				if rnd.IntN(3) == 0 {
					pending = add(pending, was+k, was+k+1)
					waits[is+k] = true
				}
			}
			end = is + n
			was += n + rnd.Uint64N(3)
		}
		floor, finished := plan(runs, pending)
		for o := range end {
			if delivered := o >= floor && !has(finished, o); delivered != waits[o] {
				t.Fatalf("runs %v, pending %v: floor %d, finished %v: offset %d is delivered: %v", runs, pending, floor, finished, o, delivered)
			}
		}
		if len(waits) == 0 && floor != end {
			t.Fatalf("runs %v: nothing is pending, and the floor is %d", runs, floor)
		}
	}
}

func TestRangesJoin(t *testing.T) {
	var r [][2]uint64
	for _, x := range [][2]uint64{{2, 4}, {4, 5}, {3, 6}, {6, 6}, {8, 9}, {1, 2}, {12, 11}} {
		r = add(r, x[0], x[1])
	}
	if len(r) != 2 || r[0] != [2]uint64{2, 6} || r[1] != [2]uint64{8, 9} {
		t.Errorf("%v", r)
	}
	for o, want := range map[uint64]bool{1: false, 2: true, 5: true, 6: false, 8: true, 9: false} {
		if has(r, o) != want {
			t.Errorf("has %d: %v", o, !want)
		}
	}
}

// TestRequestsRefusedForNowAreRepeated: a leadership that moves does not end a restore of hours, nor a backup. A backup
// ended when it lost the connection to a leader.
func TestRequestsRefusedForNowAreRepeated(t *testing.T) {
	refused := func(code failure.Code, f string) error { return &api.Error{Code: code, Fate: f} }
	for _, x := range []struct {
		err    error
		want   int // requests
		toRead int // likewise, of one that changes nothing
	}{
		{refused(failure.Busy, "refused"), leaderTries + 1, leaderTries + 1},
		{refused(failure.NotWritable, "refused"), leaderTries + 1, leaderTries + 1},
		{refused(failure.Uncertain, "uncertain"), 1, leaderTries + 1},
		{refused(failure.Unavailable, ""), 1, leaderTries + 1}, // no node answers
		{refused(failure.Full, "refused"), 1, 1},
		{refused(failure.NotFound, "refused"), 1, 1},
		{nil, 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			c, f := &Cluster{Timeout: time.Second}, func(context.Context) (any, error) { n++; return nil, x.err }
			if _, err := ask(t.Context(), c, f); !errors.Is(err, x.err) || n != x.want {
				t.Errorf("%v: %d requests, want %d, %v", x.err, n, x.want, err)
			}
			n = 0
			if _, err := read(t.Context(), c, f); !errors.Is(err, x.err) || n != x.toRead {
				t.Errorf("%v: %d requests to read, want %d, %v", x.err, n, x.toRead, err)
			}
			slow := func(context.Context) (any, error) { n++; time.Sleep(10 * time.Second); return nil, x.err }
			if n = 0; x.toRead > 1 {
				if _, err := read(t.Context(), c, slow); !errors.Is(err, x.err) || n != 3 {
					t.Errorf("%v: %d slow requests, %v", x.err, n, err)
				}
			}
		})
	}
}
