package topiclog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// lostIn is a range of a partition that cannot be read.
type lostIn struct {
	partition int
	api.DamageRange
}

// brokerOf returns the log of a topic with two partitions of n messages: of partition 0 at each even second, of the
// other at each odd one. peeks counts the requests for messages. A damaged partition cannot be read; -1: none is. Lost
// ranges cannot be read either.
func brokerOf(t *testing.T, n, damaged int, peeks *int, lost ...lostIn) *Log {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/topics/orders", func(w http.ResponseWriter, _ *http.Request) {
		end := uint64(n)
		_ = json.NewEncoder(w).Encode(api.Topic{Name: "orders", Partitions: []api.Partition{
			{Partition: 0, Leader: "n1", CommittedEnd: end}, {Partition: 1, Leader: "n1", CommittedEnd: end},
		}})
	})
	mux.HandleFunc("GET /v1/topics/orders/messages", func(w http.ResponseWriter, r *http.Request) {
		*peeks++
		from, _ := strconv.Atoi(r.URL.Query().Get("from"))
		most, _ := strconv.Atoi(r.URL.Query().Get("n"))
		partition, _ := strconv.Atoi(r.URL.Query().Get("partition"))
		if partition == damaged {
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(api.ErrorAnswer{Error: api.Errorf(failure.Corrupt, "offsets 0 to 199 unreadable")})
			return
		}
		list := api.PeekedList{Messages: []api.Peeked{}}
		for o := from; o < n && len(list.Messages) < most; o++ {
			if i := slices.IndexFunc(lost, func(l lostIn) bool {
				return l.partition == partition && uint64(o) >= l.From && uint64(o) < l.Next
			}); i >= 0 {
				if len(list.Messages) > 0 {
					break
				}
				w.WriteHeader(http.StatusInternalServerError)
				e := api.Errorf(failure.Corrupt, "stored data is damaged")
				e.Lost = &lost[i].DamageRange
				_ = json.NewEncoder(w).Encode(api.ErrorAnswer{Error: e})
				return
			}
			at := midnight().Add(time.Duration(2*o+partition) * time.Second)
			list.Messages = append(list.Messages, api.Peeked{Partition: partition, Seq: uint64(o), Timestamp: at, Headers: json.RawMessage("{}"), Body: []byte("x")})
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c, err := api.NewClient(api.ClientOptions{Addresses: []string{srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	return &Log{Client: c, Topic: "orders", Timeout: time.Minute}
}

// A tail shows the first messages of a long log before it has read the rest, in the order of all partitions, and
// holds a page of each.
func TestTailReadsAPageAtATime(t *testing.T) {
	const n = 20 * tailPage
	peeks, shown := 0, 0
	var last time.Time
	log := brokerOf(t, n, -1, &peeks)
	err := log.Tail(t.Context(), TailOptions{From: From{Edge: api.SeekStart}, Max: 2 * n, Warn: io.Discard}, func(m api.Peeked) error {
		if shown++; !m.Timestamp.After(last) {
			t.Fatalf("message %d is of %v, after one of %v", shown, m.Timestamp, last)
		}
		last = m.Timestamp
		if ahead := peeks*tailPage - shown; ahead > 2*tailPage {
			t.Fatalf("%d messages are read and not shown", ahead)
		}
		return nil
	})
	if err != nil || shown != 2*n {
		t.Errorf("%d messages shown: %v", shown, err)
	}
}

// A partition that cannot be read ends a tail after the messages of the others are shown.
func TestTailShowsWhatCanBeRead(t *testing.T) {
	peeks, shown := 0, 0
	err := brokerOf(t, 10, 1, &peeks).Tail(t.Context(), TailOptions{From: From{Edge: api.SeekStart}, Warn: io.Discard}, func(api.Peeked) error {
		shown++
		return nil
	})
	if api.CodeOf(err) != failure.Corrupt || shown != 10 {
		t.Errorf("%d messages shown: %v", shown, err)
	}
}

// TestTailGoesOnAfterLostMessages: it says which, and shows all others.
func TestTailGoesOnAfterLostMessages(t *testing.T) {
	const n = 3 * tailPage
	peeks, shown, warned := 0, 0, strings.Builder{}
	lost := []lostIn{{1, api.DamageRange{From: 0, Next: 2}}, {1, api.DamageRange{From: 2, Next: 5}}, {0, api.DamageRange{From: 150, Next: 151}}}
	log := brokerOf(t, n, -1, &peeks, lost...)
	enough := errors.New("enough")
	err := log.Tail(t.Context(), TailOptions{From: From{Edge: AtOffset, Offset: 1}, Warn: &warned}, func(m api.Peeked) error {
		for _, l := range lost {
			if m.Partition == l.partition && m.Seq >= l.From && m.Seq < l.Next {
				t.Errorf("message %d of partition %d is shown", m.Seq, m.Partition)
			}
		}
		if shown++; m.Partition == 1 && m.Seq == n-1 {
			return enough
		}
		return nil
	})
	if want := 2*(n-1) - 5; !errors.Is(err, enough) || shown != want {
		t.Errorf("%d messages shown, want %d: %v", shown, want, err)
	}
	const way = " are lost: the log is damaged, and no replica holds them; going on after them, as consumers do\n"
	if want := "orders/1: messages 1 to 1" + way + "orders/1: messages 2 to 4" + way + "orders/0: messages 150 to 150" + way; warned.String() != want {
		t.Errorf("it says:\n%swant:\n%s", warned.String(), want)
	}
}

// The last messages are those of all partitions together, also if they are more than a page.
func TestTailOfTheLastMessages(t *testing.T) {
	peeks, shown := 0, 0
	const most = 3*tailPage + 1
	enough := errors.New("enough")
	log := brokerOf(t, 10*tailPage, -1, &peeks)
	err := log.Tail(t.Context(), TailOptions{Max: most, Warn: io.Discard}, func(m api.Peeked) error {
		if want := midnight().Add(time.Duration(20*tailPage-most+shown) * time.Second); !m.Timestamp.Equal(want) {
			t.Fatalf("message %d is of %v, want %v", shown, m.Timestamp, want)
		}
		if shown++; shown == most {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("%d messages shown: %v", shown, err)
	}
}

// The last messages of a topic that has fewer are shown, and the tail ends.
func TestTailOfTheLastMessagesEnds(t *testing.T) {
	patient, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	peeks, shown := 0, 0
	err := brokerOf(t, 3, -1, &peeks).Tail(patient, TailOptions{Max: 10, Warn: io.Discard}, func(api.Peeked) error {
		shown++
		return nil
	})
	if err != nil || shown != 6 {
		t.Errorf("%d messages, %v", shown, err)
	}
	peeks, shown = 0, 0
	ended := errors.New("it follows")
	ctx, cancel := context.WithCancelCause(t.Context())
	err = brokerOf(t, 3, -1, &peeks).Tail(ctx, TailOptions{Max: 10, Follow: true, Warn: io.Discard}, func(api.Peeked) error {
		if shown++; shown == 6 {
			time.AfterFunc(2*pollInterval, func() { cancel(ended) })
		}
		return nil
	})
	if err == nil || shown != 6 {
		t.Errorf("followed: %d messages, %v", shown, err)
	}
}
