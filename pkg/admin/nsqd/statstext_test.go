package nsqd

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/stats"
)

func TestPercentile(t *testing.T) {
	sorted := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for p, want := range map[int]uint64{100: 10, 99: 10, 95: 10, 90: 9, 50: 5, 0: 1} {
		if got := percentile(sorted, p); got != want {
			t.Errorf("p%d is %d, want %d", p, got, want)
		}
	}
	if percentile(nil, 99) != 0 {
		t.Error("none has a percentile")
	}
}

func TestLatenciesHaveTheFormOfNsqd(t *testing.T) {
	h := new(latency.Histogram)
	for range 99 {
		h.Record(time.Millisecond)
	}
	h.Record(3 * time.Second)
	stats := []stats.Topic{{Name: "t", Channels: []stats.Channel{{Name: "a", Latency: h}, {Name: "b", Latency: h}, {Name: "c"}}}}
	for _, of := range []struct {
		quantiles                   []float64
		topic, channel, empty, text string
	}{
		{
			nil, `{"count":0,"percentiles":null}`, `{"count":0,"percentiles":null}`, `{"count":0,"percentiles":null}`, "",
		},
		{
			[]float64{1, 0.99},
			`{"count":200,"percentiles":[{"quantile":1,"value":3019898880},{"quantile":0.99,"value":999424}]}`,
			`{"count":100,"percentiles":[{"quantile":1,"value":3019898880},{"quantile":0.99,"value":999424}]}`,
			`{"count":0,"percentiles":[{"quantile":1,"value":0},{"quantile":0.99,"value":0}]}`,
			"3.0s, 999.4us",
		},
	} {
		f := Figures{Quantiles: of.quantiles}
		got := f.nsqTopics(stats, "", false)[0]
		for what, pair := range map[string][2]any{
			"topic": {got.Latency, of.topic}, "channel": {got.Channels[0].Latency, of.channel}, "channel without messages": {got.Channels[2].Latency, of.empty},
		} {
			if text, err := json.Marshal(pair[0]); err != nil || string(text) != pair[1] {
				t.Errorf("%s: %s, %v", what, text, err)
			}
		}
		if text := got.Channels[1].Latency.String(); text != of.text {
			t.Errorf("text %q, want %q", text, of.text)
		}
	}
}
