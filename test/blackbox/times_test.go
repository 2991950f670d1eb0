package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// Times before and after all that 64-bit nanoseconds can express mean the start and the end, wherever one is
// read, and numbers that are no seconds are refused.
func TestTimesBeforeAndAfterAllMessages(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	fill(n, "t", 10)
	depth := func(channel string) int { t.Helper(); return int(n.channel("t", channel).Depth) }
	for text, want := range map[string]int{
		"9999-12-31T23:59:59Z": 0, "2262-04-11T23:47:17Z": 0, "2100-01-01T00:00:00Z": 0,
		"0001-01-01T00:00:01Z": 10, "1600-01-01T00:00:00Z": 10, "1970-01-01T00:00:00Z": 10,
	} {
		for i, move := range []func(channel string){
			func(c string) { n.ctl(0, "channel", "create", "t/"+c, "--from", text) },
			func(c string) { n.ctl(0, "channel", "seek", "t/"+c, "--to", text, "--yes") },
			func(c string) { n.post("/v1/topics/t/channels/"+c+"/seek", `{"time":"`+text+`"}`) },
		} {
			c := fmt.Sprintf("c%d-%s", i, text[:4])
			if i > 0 {
				n.post("/channel/create?topic=t&channel="+c, "")
				n.ctl(0, "channel", "seek", "t/"+c, "--to", "end", "--yes")
				if want == 0 {
					n.ctl(0, "channel", "seek", "t/"+c, "--to", "start", "--yes")
				}
			}
			if move(c); depth(c) != want {
				t.Errorf("way %d to %s: depth %d, want %d", i, text, depth(c), want)
			}
		}
	}
	for i, seconds := range []string{"9223372037", "32503680000", "253402300799"} {
		c := fmt.Sprint("s", i)
		n.post("/channel/create?topic=t&channel="+c, "")
		if n.post("/channel/setoffset?topic=t&channel="+c, "timestamp:"+seconds); depth(c) != 0 {
			t.Errorf("setoffset timestamp:%s: depth %d", seconds, depth(c))
		}
	}
	n.ctl(0, "channel", "create", "t/kept", "--from", "start")
	for _, number := range []string{"1764349789000", "1764349789000000", "9223372036854775807", "9223372036854775808", "-1"} {
		n.want(400, "POST", "/channel/setoffset?topic=t&channel=kept", "timestamp:"+number)
		w := n.identify("{}")
		w.send("SUB_ADVANCED t adv" + strings.TrimPrefix(number, "-") + " 0 timestamp:" + number + "\n")
		if kind, got, err := w.next(patience); err != nil || !strings.HasPrefix(got, "E_INVALID invalid consume offset") {
			t.Errorf("SUB_ADVANCED timestamp:%s: %d %q %v", number, kind, got, err)
		}
	}
	if got := depth("kept"); got != 10 {
		t.Errorf("refused places moved the channel: depth %d", got)
	}
}

func TestTheFirstAndTheLastTimeBoundDeferredMessages(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.post("/topic/create?topic=t", "")
	n.post("/channel/create?topic=t&channel=c", "")
	n.post("/pub?topic=t&defer=600000", "later")
	for window, want := range map[string]string{
		"--until 9999-12-31": "1", "--until 0001-01-01T00:00:00Z": "0", "--since 0001-01-01T00:00:00Z": "1", "--since 9999-12-31": "0",
		"--until 106751d": "1", "--since 106751d": "0",
	} {
		args := append([]string{"message", "deferred", "t/c", "-o", "go-template={{len .messages}}"}, strings.Fields(window)...)
		if got := strings.TrimSpace(n.ctl(0, args...)); got != want {
			t.Errorf("%s: %s deferred messages, want %s", window, got, want)
		}
	}
}
