// Package workload is the load of a benchmark: a Load publishes to a topic over several connections,
// and a Drain consumes from it. What they count is in internal/measure.
package workload

import (
	"time"

	"github.com/brokerd/brokerd/internal/measure"
)

// Result is what a Load or a Drain has measured.
type Result struct {
	Counts  measure.Counts
	Took    time.Duration
	Latency measure.Histogram // of the answers to batches, or of messages from when they were due
}

// Throughput returns the throughput of the result.
func (r *Result) Throughput() *measure.Throughput { return measure.NewThroughput(r.Counts, r.Took) }
