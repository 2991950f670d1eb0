package main

import (
	"fmt"
	"maps"
	"strconv"
	"time"
)

// load is one thing to measure. Its figures are named with their unit.
type load struct {
	name    string
	args    []string                        // of loadgen
	figures func(result) map[string]float64 // nil: the time of a restart after a kill that follows the load
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
		{"kill -9 and restart", []string{"publish", "-duration", duration, "-keep"}, nil},
	}
}

// clusterLoads lists what is measured of clusters. CPU and memory are of all
// servers together.
func clusterLoads(o options) []load {
	duration := o.duration.String()
	return []load{
		{"batched publish", []string{"publish", "-duration", duration}, rate},
		{"16 synchronous producers", []string{"publish", "-sync", "-producers", "16", "-duration", duration}, rate},
		{"a lone synchronous producer", []string{"publish", "-sync", "-duration", duration}, acks},
		{"2,000 messages/s", []string{"e2e", "-rate", "2000", "-duration", duration}, delivery},
		{strconv.Itoa(o.topics) + " topics", []string{"topics", "-topics", strconv.Itoa(o.topics), "-duration", "3s", "-keep"}, func(r result) map[string]float64 {
			return map[string]float64{"made/s": r.MsgsPerSec, "memory, MiB": r.RSSAfterMB, "idle, % of a core": 100 * r.IdleCPU}
		}},
	}
}

// clientLoads lists what a client's own work decides, and what the broker's does.
func clientLoads(o options) []load {
	duration := o.duration.String()
	both := func(r result) map[string]float64 { return map[string]float64{"messages/s": r.MsgsPerSec} }
	return []load{
		{"publish without waiting, 1,000 in flight", []string{"publish", "-batch", "1", "-window", "1000", "-duration", duration}, both},
		{"publish batches of 100, 10 in flight", []string{"publish", "-duration", duration}, both},
		{"16 synchronous producers", []string{"publish", "-sync", "-producers", "16", "-duration", duration}, both},
		{"consume a backlog", []string{"backlog", "-messages", strconv.Itoa(o.messages)}, both},
	}
}

// featureLoads lists what shows the price of what messages can do.
func featureLoads(o options) []load {
	duration, messages := o.duration.String(), strconv.Itoa(o.messages)
	return []load{
		{"batched publish", []string{"publish", "-duration", duration}, rate},
		{"16 synchronous producers", []string{"publish", "-sync", "-producers", "16", "-duration", duration}, rate},
		{"backlog, one consumer", []string{"backlog", "-messages", messages}, rate},
		{"backlog, 16 consumers", []string{"backlog", "-messages", messages, "-drainers", "16", "-nsq-rdy", "100"}, rate},
		{"publish and consume", []string{"e2e", "-rate", "0", "-duration", duration}, rate},
	}
}

// growthLoads lists what shows how the cost of a message grows with the number of topics,
// out of order, with size and at an even rate, and what the other loads were at the time.
func growthLoads(o options) []load {
	duration := o.duration.String()
	var all []load
	for _, topics := range []int{1, 100, 1000, 10_000} {
		all = append(all, load{
			fmt.Sprintf("%d topics", topics),
			spread(topics, "-warmup", warmup(o, topics).String(), "-duration", duration),
			func(r result) map[string]float64 { return merged(rate(r), acks(r)) },
		})
	}
	late := func(r result) map[string]float64 {
		return merged(rate(r), map[string]float64{"p99 late, ms": r.Late.P99 / 1e3})
	}
	bytes := func(r result) map[string]float64 { return map[string]float64{"MB/s": r.MBPerSec} }
	messages := strconv.Itoa(o.messages)
	return append(all,
		load{"due in random order", []string{"deferred", "-messages", messages}, late},
		load{"delivered again in random order", []string{"scrambled", "-messages", messages}, rate},
		load{"hot: 1000 topics, 1 KiB", spread(1000, "-size", "1024", "-duration", duration, "-rest", "30s"), func(r result) map[string]float64 {
			return map[string]float64{"memory, MiB": r.Server.RSSMaxMB, "memory 30 s later, MiB": r.RSSAfterMB}
		}},
		load{"batched publish", []string{"publish", "-duration", duration}, rate},
		load{"16 synchronous producers", []string{"publish", "-sync", "-producers", "16", "-duration", duration}, rate},
		load{"a lone synchronous producer", []string{"publish", "-sync", "-duration", duration}, acks},
		load{"2,000 messages/s", []string{"e2e", "-rate", "2000", "-duration", duration}, paced},
		load{"5,000 messages/s", []string{"e2e", "-rate", "5000", "-duration", duration}, paced},
		load{"5,000 messages/s, 6 partitions", []string{"e2e", "-rate", "5000", "-nsq-partitions", "6", "-duration", duration}, paced},
		load{"20,000 messages/s, 6 partitions", []string{"e2e", "-rate", "20000", "-nsq-partitions", "6", "-duration", duration}, paced},
		load{"16 KiB messages", []string{"publish", "-size", "16384", "-batch", "1", "-window", "64", "-duration", duration}, bytes},
		load{"1 MiB messages", []string{"publish", "-size", "1048576", "-batch", "1", "-window", "8", "-duration", duration}, bytes},
		load{"backlog", []string{"backlog", "-messages", messages}, rate},
		load{"3000 new topics", []string{"topics", "-topics", "3000", "-concurrency", "32", "-duration", "1s", "-keep"}, func(r result) map[string]float64 {
			return map[string]float64{"made/s": r.MsgsPerSec}
		}},
		load{"kill -9 and restart, 1000 topics", spread(1000, "-duration", duration), nil},
		load{"kill -9 and restart, 10000 topics", spread(10_000, "-duration", duration), nil},
	)
}

// warmup is how long the topics are published to before their load is measured: the first publishes
// create files, which takes most of the time with many topics, and three times as much of it in a
// cluster.
func warmup(o options, topics int) time.Duration {
	each := 2 * time.Millisecond
	if o.cluster {
		each = 20 * time.Millisecond
	}
	return 2*time.Second + min(time.Duration(topics)*each, 20*time.Second)
}

// spread is 8 connections with 32 publishes in flight each, to n topics in turn.
func spread(topics int, more ...string) []string {
	return append([]string{
		"publish", "-producers", "8", "-window", "32", "-batch", "1", "-nsq-topics", strconv.Itoa(topics), "-no-group", "-keep",
	}, more...)
}

func acks(r result) map[string]float64 {
	return map[string]float64{"median answer, ms": r.Ack.P50 / 1e3, "p99 answer, ms": r.Ack.P99 / 1e3}
}

func paced(r result) map[string]float64 {
	return merged(delivery(r), map[string]float64{"p99.9 delivery, ms": r.EndToEnd.P999 / 1e3, "slowest delivery, ms": r.EndToEnd.Max / 1e3})
}

// merged returns the figures of both.
func merged(a, b map[string]float64) map[string]float64 {
	maps.Copy(a, b)
	return a
}
