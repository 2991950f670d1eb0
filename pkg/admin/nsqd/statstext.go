package nsqd

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// nsqMemory is the memory of the process in /stats.
type nsqMemory struct {
	HeapObjects       uint64 `json:"heap_objects"`
	HeapIdleBytes     uint64 `json:"heap_idle_bytes"`
	HeapInUseBytes    uint64 `json:"heap_in_use_bytes"`
	HeapReleasedBytes uint64 `json:"heap_released_bytes"`
	GCPause100        uint64 `json:"gc_pause_usec_100"`
	GCPause99         uint64 `json:"gc_pause_usec_99"`
	GCPause95         uint64 `json:"gc_pause_usec_95"`
	NextGCBytes       uint64 `json:"next_gc_bytes"`
	GCRuns            uint32 `json:"gc_total_runs"`
}

func readMemory() *nsqMemory {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	// The ring holds the last pauses; before it is full, the rest is zero.
	pauses := slices.Clone(m.PauseNs[:min(int(m.NumGC), len(m.PauseNs))])
	slices.Sort(pauses)
	return &nsqMemory{
		HeapObjects:       m.HeapObjects,
		HeapIdleBytes:     m.HeapIdle,
		HeapInUseBytes:    m.HeapInuse,
		HeapReleasedBytes: m.HeapReleased,
		GCPause100:        percentile(pauses, 100) / 1000,
		GCPause99:         percentile(pauses, 99) / 1000,
		GCPause95:         percentile(pauses, 95) / 1000,
		NextGCBytes:       m.NextGC,
		GCRuns:            m.NumGC,
	}
}

// percentile returns the p-th percentile of sorted values by nearest rank.
func percentile(sorted []uint64, p int) uint64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// statsText is /stats for people. Nothing should parse it.
func statsText(st nsqStats, started time.Time) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "brokerd v%s (built w/%s)\n", st.Version, runtime.Version())
	fmt.Fprintf(&b, "start_time %s\n", started.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "uptime %s\n\n", time.Since(started).Round(time.Second))
	fmt.Fprintf(&b, "Health: %s\n", st.Health)
	if st.Memory != nil {
		st.Memory.writeText(&b)
	}
	if len(st.Topics) == 0 {
		fmt.Fprint(&b, "\nTopics: None\n")
	} else {
		fmt.Fprint(&b, "\nTopics:\n")
	}
	for _, t := range st.Topics {
		fmt.Fprintf(&b, "%s [%-15s] depth: %-7d be-depth: %-7d msgs: %-9d e2e%%: %s\n",
			pausedMark(t.Paused), t.Name, t.Depth, t.BackendDepth, t.MessageCount, t.Latency)
		for _, c := range t.Channels {
			c.writeText(&b)
		}
	}
	if len(st.Producers) == 0 {
		fmt.Fprint(&b, "\nProducers: None\n")
		return b.Bytes()
	}
	fmt.Fprint(&b, "\nProducers:\n")
	for _, p := range st.Producers {
		fmt.Fprintf(&b, "   [%s %-21s] connected: %s\n", p.Version, p.RemoteAddress, connectedFor(p.ConnectTime))
		for _, c := range p.PubCounts {
			fmt.Fprintf(&b, "      [%-15s] msgs: %d\n", c.Topic, c.Count)
		}
	}
	return b.Bytes()
}

func (m *nsqMemory) writeText(b *bytes.Buffer) {
	fmt.Fprint(b, "\nMemory:\n")
	for _, g := range m.gauges() {
		fmt.Fprintf(b, "   %-20s %d\n", g.name, g.value)
	}
	fmt.Fprintf(b, "   %-20s %d\n", "gc_total_runs", m.GCRuns)
}

// memoryGauge is a figure of the memory under the name that nsqd gives it.
type memoryGauge struct {
	name  string
	value uint64
}

// gauges returns all figures but the number of collections, which nsqd counts under two names.
func (m *nsqMemory) gauges() []memoryGauge {
	return []memoryGauge{
		{"heap_objects", m.HeapObjects},
		{"heap_idle_bytes", m.HeapIdleBytes},
		{"heap_in_use_bytes", m.HeapInUseBytes},
		{"heap_released_bytes", m.HeapReleasedBytes},
		{"gc_pause_usec_100", m.GCPause100},
		{"gc_pause_usec_99", m.GCPause99},
		{"gc_pause_usec_95", m.GCPause95},
		{"next_gc_bytes", m.NextGCBytes},
	}
}

func (c *nsqChannelStats) writeText(b *bytes.Buffer) {
	fmt.Fprintf(b, "   %s [%-25s] depth: %-7d be-depth: %-7d inflt: %-5d def: %-5d re-q: %-6d timeout: %-6d msgs: %-9d e2e%%: %s\n",
		pausedMark(c.Paused), c.Name, c.Depth, c.BackendDepth, c.InFlightCount, c.DeferredCount, c.RequeueCount, c.TimeoutCount, c.MessageCount, c.Latency)
	for _, cl := range c.Clients {
		fmt.Fprintf(b, "        [%s %-21s] state: %d inflt: %-5d rdy: %-5d fin: %-8d re-q: %-8d msgs: %-8d connected: %s\n",
			cl.Version, cl.RemoteAddress, cl.State, cl.InFlightCount, cl.ReadyCount, cl.FinishCount, cl.RequeueCount, cl.MessageCount,
			connectedFor(cl.ConnectTime))
	}
}

// String formats the percentiles, each in the largest unit of which it has at least one.
func (l nsqLatency) String() string {
	texts := make([]string, len(l.Percentiles))
	for i, p := range l.Percentiles {
		value, unit := float64(p.Value), "ns"
		for _, larger := range []string{"us", "ms", "s"} {
			if value < 1000 {
				break
			}
			value, unit = value/1000, larger
		}
		texts[i] = fmt.Sprintf("%.1f%s", value, unit)
	}
	return strings.Join(texts, ", ")
}

func pausedMark(paused bool) string {
	if paused {
		return "*P"
	}
	return "  "
}

func connectedFor(since int64) time.Duration {
	return time.Since(time.Unix(since, 0)).Round(time.Second)
}
