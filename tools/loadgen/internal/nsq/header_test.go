package nsq

import (
	"encoding/json"
	"testing"
)

func TestHeadersRotateKeysAndHaveUniqueIDs(t *testing.T) {
	h, ids := newHeaders(3, true), map[string]bool{}
	for i := range 10 {
		for j, raw := range h.some(2) {
			var got struct {
				Key string `json:"##key"`
				ID  string `json:"##dedup_id"`
			}
			if err := json.Unmarshal(raw[2:], &got); err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
			if want := []string{"k0", "k1", "k2"}[(2*i+j)%3]; got.Key != want {
				t.Errorf("message %d has key %q, want %q", 2*i+j, got.Key, want)
			}
			if got.ID == "" || ids[got.ID] {
				t.Errorf("message %d has dedup id %q again", 2*i+j, got.ID)
			}
			ids[got.ID] = true
		}
	}
	if got := string(newHeaders(2, false).some(1)[0]); got != "\x00\x0e"+`{"##key":"k0"}` {
		t.Errorf("header %s", got)
	}
}
