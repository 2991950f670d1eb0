package topiclog

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func midnight() time.Time { return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC) }

// keptLog is a broker with messages [start, end) of a partition, one per second since midnight.
// With each request retention deletes more of them.
func keptLog(t *testing.T, start, end uint64, deletes uint64) *Range {
	return keptLogWith(t, start, end, deletes, new(atomic.Bool))
}

// keptLogWith is a keptLog whose leader returns no messages once if it is silent, as one that does not yet know what is
// committed.
func keptLogWith(t *testing.T, start, end uint64, deletes uint64, silent *atomic.Bool) *Range {
	mux := http.NewServeMux()
	first := start
	mux.HandleFunc("GET /v1/topics/orders", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.Topic{Name: "orders", Partitions: []api.Partition{{LogStart: first, CommittedEnd: end}}})
	})
	mux.HandleFunc("GET /v1/topics/orders/messages", func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.ParseUint(r.URL.Query().Get("from"), 10, 64)
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		list := api.PeekedList{Messages: []api.Peeked{}}
		for o := max(from, first); o < end+5 && len(list.Messages) < min(n, 7); o++ { // more messages have arrived since
			list.Messages = append(list.Messages, api.Peeked{Seq: o, Timestamp: midnight().Add(time.Duration(o) * time.Second), Headers: json.RawMessage("{}"), Body: []byte("x")})
		}
		first += deletes
		if silent.CompareAndSwap(true, false) {
			list.Messages = list.Messages[:0]
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c, err := api.NewClient(api.ClientOptions{Addresses: []string{srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	return &Range{Log: &Log{Client: c, Topic: "orders", Timeout: time.Minute}, Start: start, End: end}
}

func TestExportReadsItsRangeWhileRetentionDeletesTheStart(t *testing.T) {
	for _, x := range []struct{ start, end, deletes, messages, gone uint64 }{
		{0, 0, 0, 0, 0}, {5, 40, 0, 35, 0}, {5, 40, 10, 26, 9}, {5, 40, 100, 7, 28},
	} {
		r := keptLog(t, x.start, x.end, x.deletes)
		var messages, gone, last uint64
		if err := r.Each(t.Context(), &gone, func(m *api.Peeked) error { messages, last = messages+1, m.Seq; return nil }); err != nil {
			t.Fatal(err)
		}
		if messages+gone != x.end-x.start || messages != x.messages || gone != x.gone || last >= x.end && x.end > 0 {
			t.Errorf("%+v: %d messages, %d gone, last %d", x, messages, gone, last)
		}
	}
}

// TestExportWaitsForANewLeader: what it did not return yet counted as deleted by retention.
func TestExportWaitsForANewLeader(t *testing.T) {
	var silent atomic.Bool
	r := keptLogWith(t, 5, 40, 0, &silent)
	var messages, gone uint64
	err := r.Each(t.Context(), &gone, func(m *api.Peeked) error {
		silent.Store(m.Seq == 11) // the last one of a page
		messages++
		return nil
	})
	if err != nil || messages != 35 || gone != 0 || silent.Load() {
		t.Errorf("%d messages, %d gone, %v", messages, gone, err)
	}
}

func TestExportPositionIsFound(t *testing.T) {
	r := keptLog(t, 5, 40, 0)
	offset := func(o uint64) api.Seek { return api.Seek{Offset: &o} }
	after := func(d time.Duration) api.Seek { return api.Seek{Time: new(midnight().Add(d))} }
	for _, x := range []struct {
		to   api.Seek
		want uint64
	}{
		{api.Seek{To: api.SeekStart}, 5},
		{api.Seek{To: api.SeekEnd}, 40},
		{offset(0), 5},
		{offset(17), 17},
		{offset(99), 40},
		{after(10 * time.Second), 10},
		{after(10500 * time.Millisecond), 11},
		{after(-24 * time.Hour), 5},
		{after(240 * time.Hour), 40},
	} {
		if got, err := r.Resolve(t.Context(), x.to); err != nil || got != x.want {
			t.Errorf("%+v is %d, want %d: %v", x.to, got, x.want, err)
		}
	}
}
