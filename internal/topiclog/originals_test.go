package topiclog

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Copies for one channel are left out if their originals are read, also those of copies and of other partitions.
func TestCopiesOfReadMessagesAreLeftOut(t *testing.T) {
	id := func(partition, o int) string { return fmt.Sprintf("%016x", partition<<50+o+1000) }
	copies := map[string]string{
		id(0, 3): id(0, 0), id(0, 4): id(0, 2), id(0, 6): id(0, 4), id(0, 7): id(1, 0),
		id(1, 1): id(0, 1), id(1, 2): id(1, 0),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/topics/orders/messages", func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.URL.Query().Get("from"))
		p, _ := strconv.Atoi(r.URL.Query().Get("partition"))
		list := api.PeekedList{Messages: []api.Peeked{}}
		for o := from; o < 8; o++ {
			if p == 0 && o == 1 {
				continue // retention has deleted it
			}
			m := api.Peeked{Partition: p, Seq: uint64(o), ID: id(p, o), CopyOf: copies[id(p, o)], Headers: json.RawMessage("{}"), Body: []byte("x")}
			list.Messages = append(list.Messages, m)
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c, err := api.NewClient(api.ClientOptions{Addresses: []string{srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		start  uint64 // of partition 0
		want   string
		copies uint64
	}{
		{0, "0/0 0/2 0/5 0/7 1/0 1/1 1/3", 4},
		{2, "0/2 0/3 0/5 0/7 1/0 1/1 1/3", 3},
		{3, "0/3 0/4 0/5 0/7 1/0 1/1 1/3", 2},
	} {
		var all Originals
		var read []string
		var gone uint64
		for p, r := range []Range{{Start: x.start, End: 8}, {Partition: 1, End: 4}} {
			r.Log = &Log{Client: c, Topic: "orders", Timeout: time.Minute}
			if err := all.Each(t.Context(), &r, &gone, func(m *api.Peeked) error { read = append(read, fmt.Sprintf("%d/%d", p, m.Seq)); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(read); got != "["+x.want+"]" || all.Copies != x.copies || !slices.IsSorted(read) {
			t.Errorf("from %d: read %s, left out %d copies, want %s and %d", x.start, got, all.Copies, x.want, x.copies)
		}
	}
}
