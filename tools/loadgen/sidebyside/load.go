package main

import (
	"fmt"
	"strconv"
)

// load is one thing to measure. Its figures are named with their unit.
type load struct {
	name    string
	args    []string // of loadgen; nil: restart after a kill
	figures func(result) map[string]float64
}

func rate(r result) map[string]float64 {
	return map[string]float64{"messages/s": r.MsgsPerSec, "CPU seconds/million": r.ServerCPUPerM}
}

func delivery(r result) map[string]float64 {
	return map[string]float64{"median delivery, ms": r.EndToEnd.P50 / 1e3, "p99 delivery, ms": r.EndToEnd.P99 / 1e3}
}

// nodeLoads lists what is measured of single nodes, in the order of the table.
func nodeLoads(o options) []load {
	duration := o.duration.String()
	return []load{
		{"batched publish", []string{"publish", "-duration", duration}, rate},
		{"16 synchronous producers", []string{"publish", "-sync", "-producers", "16", "-duration", duration}, rate},
		{"backlog", []string{"backlog", "-messages", strconv.Itoa(o.messages)}, rate},
		{"2,000 messages/s", []string{"e2e", "-rate", "2000", "-duration", duration}, delivery},
		{strconv.Itoa(o.topics) + " idle topics", []string{"topics", "-topics", strconv.Itoa(o.topics), "-duration", "2s"}, func(r result) map[string]float64 {
			return map[string]float64{"memory, MiB": r.RSSAfterMB}
		}},
		{"kill -9 and restart", nil, nil},
	}
}

// clusterLoads lists what is measured of clusters. CPU and memory are of all
// servers together.
func clusterLoads(o options) []load {
	duration := o.duration.String()
	return []load{
		{"batched publish", []string{"publish", "-duration", duration}, rate},
		{"16 synchronous producers", []string{"publish", "-sync", "-producers", "16", "-duration", duration}, rate},
		{"a lone synchronous producer", []string{"publish", "-sync", "-duration", duration}, func(r result) map[string]float64 {
			return map[string]float64{"median answer, ms": r.Ack.P50 / 1e3, "p99 answer, ms": r.Ack.P99 / 1e3}
		}},
		{"2,000 messages/s", []string{"e2e", "-rate", "2000", "-duration", duration}, delivery},
		{strconv.Itoa(o.topics) + " topics", []string{"topics", "-topics", strconv.Itoa(o.topics), "-duration", "3s", "-keep"}, func(r result) map[string]float64 {
			return map[string]float64{"made/s": r.MsgsPerSec, "memory, MiB": r.RSSAfterMB, "idle, % of a core": 100 * r.IdleCPU}
		}},
	}
}

// growthLoads lists what shows how the cost of a message grows with the number of topics,
// and out of order.
func growthLoads(o options) []load {
	var all []load
	for _, topics := range []int{1, 100, 1000, 10_000} {
		all = append(all, load{
			fmt.Sprintf("%d topics", topics),
			[]string{
				"publish", "-producers", "8", "-window", "32", "-batch", "1", "-nsq-topics", strconv.Itoa(topics),
				"-no-group", "-keep", "-warmup", "2s", "-duration", o.duration.String(),
			},
			func(r result) map[string]float64 {
				figures := rate(r)
				figures["median answer, ms"], figures["p99 answer, ms"] = r.Ack.P50/1e3, r.Ack.P99/1e3
				return figures
			},
		})
	}
	late := func(r result) map[string]float64 {
		figures := rate(r)
		figures["p99 late, ms"] = r.Late.P99 / 1e3
		return figures
	}
	messages := strconv.Itoa(o.messages)
	return append(all,
		load{"due in random order", []string{"deferred", "-messages", messages}, late},
		load{"delivered again in random order", []string{"scrambled", "-messages", messages}, rate})
}
