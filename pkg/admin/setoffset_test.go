package admin

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChannelIsMovedByYouzanClients(t *testing.T) {
	lastTime := time.Duration(math.MaxInt64).Seconds()
	const notSeconds = "is not a valid time: it must be in seconds since 1970, and not after the year 9999"
	for _, test := range []struct {
		target, body string
		status       int
		answer, seek string
	}{
		{"topic=t&channel=c", "special:-1", 200, "", "end"},
		{"topic=t&channel=c", "msgcount:5\n", 200, "", "offset 4"},
		{"topic=t&channel=c&partition=0", "msgcount:0", 200, "", "offset 0 of partition 0"},
		{"topic=t&channel=c", "timestamp:17", 200, "", "time 17"},
		{"topic=t&channel=c", "timestamp:9223372037", 200, "", fmt.Sprint("time ", lastTime)},
		{"topic=t&channel=c", "timestamp:253402300799", 200, "", fmt.Sprint("time ", lastTime)},
		{"topic=t&channel=c", "timestamp:1764349789000", 400, "invalid consume offset: timestamp:1764349789000 " + notSeconds, ""},
		{"topic=t&channel=c", "timestamp:1764349789000000", 400, "invalid consume offset: timestamp:1764349789000000 " + notSeconds, ""},
		{"topic=t&channel=c", "timestamp:9223372036854775807", 400, "invalid consume offset: timestamp:9223372036854775807 " + notSeconds, ""},
		{"topic=t&channel=c", "", 400, "invalid consume offset: ", ""},
		{"topic=t&channel=c", "special:0", 400, "invalid consume offset: special:0", ""},
		{"topic=t&channel=c", "msgcount:-1", 400, "invalid consume offset: msgcount:-1", ""},
		{"topic=t&channel=c", "virtual_queue:7", 400, "invalid consume offset: virtual_queue:7", ""},
		{"topic=t&channel=c", strings.Repeat("x", 257), 413, "BODY_TOO_BIG", ""},
		{"topic=t&channel=c&partition=1", "special:-1", 404, "PARTITION_NOT_FOUND", ""},
		{"topic=none&channel=c", "special:-1", 404, "TOPIC_NOT_FOUND", ""},
		{"topic=t", "special:-1", 400, "MISSING_ARG_CHANNEL", ""},
	} {
		f := newFake("t").withChannel("t", "c")
		w := ask(serverOf(t, f).Handler(), "POST", "/channel/setoffset?"+test.target, test.body)
		answer := ""
		if test.answer != "" {
			answer = fmt.Sprintf("{\"message\":%q}", test.answer)
		}
		if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != answer {
			t.Errorf("%s %q: %d %s, want %d %s", test.target, test.body, w.Code, got, test.status, answer)
		}
		seek := ""
		if to := f.sought; len(f.calls) > 0 {
			switch {
			case to.End:
				seek = "end"
			case to.Offset != nil:
				seek = fmt.Sprint("offset ", *to.Offset)
			case !to.Time.IsZero():
				seek = fmt.Sprint("time ", to.Time.Sub(time.Unix(0, 0)).Seconds())
			}
			if to.Partition != nil {
				seek += fmt.Sprint(" of partition ", *to.Partition)
			}
		}
		if diff := cmp.Diff(test.seek, seek); diff != "" {
			t.Errorf("%s %q: %s", test.target, test.body, diff)
		}
	}
}
