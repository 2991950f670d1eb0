package batching

import (
	"strings"
	"testing"
	"time"
)

func TestBodiesAreRepeated(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 26, 6, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		messages string // separated by commas
		count    int
		want     string
		err      string
	}{
		{"a,{{b", 0, "a {{b", ""},
		{"a", 3, "a a a", ""},
		{"{{.N}},x{{.N}}", 2, "1 2 x1 x2", ""},
		{"{{.Now}}", 1, "2026-11-26T06:00:00Z", ""},
		{"a,{{b", 1, "a", "not defined"},
		{"{{.X}}", 1, "", "map has no entry"},
		{"{{if false}}x{{end}}", 1, "", "it is empty"},
	} {
		var got []string
		text := ""
		for b, err := range Bodies(strings.Split(c.messages, ","), c.count, now) {
			if err != nil {
				text = err.Error()
				break
			}
			got = append(got, string(b))
		}
		if strings.Join(got, " ") != c.want || (text != "") != (c.err != "") || !strings.Contains(text, c.err) {
			t.Errorf("%d times %s: %q, %q", c.count, c.messages, got, text)
		}
	}
	for range Bodies([]string{"{{.N}}"}, 1_000_000_000, now) {
		break // it does not make them all first
	}
}
