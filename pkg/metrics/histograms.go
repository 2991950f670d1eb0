package metrics

import (
	"errors"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

const (
	// nativeFactor is the growth of the buckets for scrapers that read native
	// histograms; the others get the classic buckets below.
	nativeFactor      = 1.1
	nativeMaxBuckets  = 100
	nativeMinInterval = time.Hour
	bucketGrowth      = 2
)

// Histograms records frequent events: durations and sizes. Its methods are safe
// for concurrent use.
type Histograms struct {
	publish       [results]prometheus.Observer
	publishErrors [reasons]prometheus.Counter
	batch         prometheus.Observer
	logSync       prometheus.Observer
	logAppend     prometheus.Observer
	processing    prometheus.Observer
	attempts      prometheus.Observer
	raftCommit    prometheus.Observer
	delivery      prometheus.Observer
	replication   prometheus.Observer
	acts          *prometheus.CounterVec
	httpRequests  *prometheus.CounterVec
	httpDuration  *prometheus.HistogramVec
	elections     map[string]prometheus.Counter // by reason; constant after creation
	otherElection prometheus.Counter
	unclean       prometheus.Counter
	isrShrinks    prometheus.Counter
	isrExpands    prometheus.Counter
}

// result is the outcome of a publish.
type result int

const (
	resultOK result = iota
	resultRefused
	resultUncertain
	resultCorrupt
	results
)

func (r result) String() string {
	return [results]string{"ok", "refused", "uncertain", "corrupt"}[r]
}

func resultOf(err error) result {
	if err == nil {
		return resultOK
	}
	switch fate.Of(err) {
	case fate.Refused:
		return resultRefused
	case fate.Corrupt:
		return resultCorrupt
	case fate.Uncertain:
	}
	return resultUncertain
}

// reason is why a publish failed.
type reason int

const (
	reasonTooLarge reason = iota
	reasonBadTopic
	reasonBadPartition
	reasonBusy
	reasonDiskFull
	reasonTopicFull
	reasonExiting
	reasonNotWritable // refused for another reason: no leader, too few replicas in sync
	reasonUncertain
	reasonCorrupt
	reasons
)

func (r reason) String() string {
	return [reasons]string{
		"too_large", "bad_topic", "bad_partition", "busy", "disk_full", "topic_full", "exiting", "not_writable", "uncertain", "corrupt",
	}[r]
}

func reasonOf(err error) reason {
	for _, known := range []struct {
		err    error
		reason reason
	}{
		{failure.MessageTooBig, reasonTooLarge},
		{failure.BodyTooBig, reasonTooLarge},
		{failure.TopicNotFound, reasonBadTopic},
		{failure.InvalidTopic, reasonBadTopic},
		{failure.PartitionNotFound, reasonBadPartition},
		{failure.PartitionNeeded, reasonBadPartition},
		{failure.QueueFull, reasonBusy},
		{failure.Uncommitted, reasonBusy},
		{failure.ShuttingDown, reasonExiting},
		{failure.DiskFull, reasonDiskFull},
		{failure.TopicFull, reasonTopicFull},
		{failure.NoSpace, reasonDiskFull},
		{syscall.ENOSPC, reasonDiskFull},
		{syscall.EDQUOT, reasonDiskFull},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	switch fate.Of(err) {
	case fate.Refused:
		return reasonNotWritable
	case fate.Corrupt:
		return reasonCorrupt
	case fate.Uncertain:
	}
	return reasonUncertain
}

// newHistograms creates the histograms and registers them.
func newHistograms(r prometheus.Registerer) *Histograms {
	h := &Histograms{}
	publishBuckets := prometheus.ExponentialBuckets(100e-6, bucketGrowth, 18) // 100 µs to 13 s
	diskBuckets := prometheus.ExponentialBuckets(50e-6, bucketGrowth, 17)     // 50 µs to 3.3 s
	longBuckets := prometheus.ExponentialBuckets(1e-3, 4, 12)                 // 1 ms to 70 min
	one := func(name, help string, buckets []float64) prometheus.Observer {
		o := prometheus.NewHistogram(histogramOpts(name, help, buckets))
		r.MustRegister(o)
		return o
	}
	publish := prometheus.NewHistogramVec(histogramOpts("brokerd_publish_duration_seconds",
		"Publish latency from request to response, by result.", publishBuckets), []string{"result"})
	r.MustRegister(publish)
	for i := range results {
		h.publish[i] = publish.WithLabelValues(i.String())
	}
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "brokerd_publish_errors_total", Help: "Failed publishes, by reason.",
	}, []string{"reason"})
	r.MustRegister(failed)
	for i := range reasons {
		h.publishErrors[i] = failed.WithLabelValues(i.String())
	}
	h.batch = one("brokerd_publish_batch_messages", "Messages per group commit.",
		prometheus.ExponentialBuckets(1, bucketGrowth, 14))
	h.logSync = one("brokerd_log_fsync_duration_seconds", "Log sync latency.", diskBuckets)
	h.logAppend = one("brokerd_log_append_duration_seconds", "Latency of writing a batch to the log, without the sync; a sample.", diskBuckets)
	h.processing = one("brokerd_channel_processing_seconds", "Latency from delivery to FIN; a sample.", longBuckets)
	h.attempts = one("brokerd_channel_attempts", "Delivery attempts per finished message; a sample.", prometheus.ExponentialBuckets(1, bucketGrowth, 9))
	h.raftCommit = one("brokerd_raft_commit_duration_seconds", "Latency from proposing a metadata command to applying it on this node.", publishBuckets)
	h.replication = one("brokerd_replication_duration_seconds", "Latency from sending batches to a follower until it confirms that they are stored.", diskBuckets)
	h.delivery = one("brokerd_channel_delivery_delay_seconds", "Latency from the commit of a message to its first delivery.", longBuckets)
	h.httpRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "brokerd_http_requests_total", Help: "HTTP requests, by path pattern and response status.",
	}, []string{"route", "code"})
	h.httpDuration = prometheus.NewHistogramVec(histogramOpts("brokerd_http_request_duration_seconds",
		"HTTP request latency, by path pattern.", publishBuckets), []string{"route"})
	r.MustRegister(h.httpRequests, h.httpDuration)
	h.acts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "brokerd_admin_actions_total", Help: "Changes requested by operators over HTTP, by method and path pattern, and by result: done, refused (status 4xx) or failed (5xx).",
	}, []string{"action", "result"})
	r.MustRegister(h.acts)
	for _, result := range []string{"done", "refused", "failed"} {
		h.acts.WithLabelValues("other", result)
	}
	h.countChanges(r)
	return h
}

// countChanges creates the counters of metadata changes.
func (h *Histograms) countChanges(r prometheus.Registerer) {
	one := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	elections := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "brokerd_partition_leader_elections_total",
		Help: "Partition leader elections proposed by this node, by reason; sum over nodes for the cluster.",
	}, []string{"reason"})
	r.MustRegister(elections)
	h.elections = map[string]prometheus.Counter{}
	for _, reason := range []string{
		meta.ReasonNodeDown, meta.ReasonRestart, meta.ReasonDrain, meta.ReasonClock, meta.ReasonTransfer, meta.ReasonBalance, meta.ReasonRepair, operate.ReasonUnclean,
	} {
		h.elections[reason] = elections.WithLabelValues(reason)
	}
	h.otherElection = elections.WithLabelValues("other")
	h.unclean = one("brokerd_unclean_elections_total", "Unclean elections: an operator elected an out-of-sync replica, messages may be lost.")
	h.isrShrinks = one("brokerd_isr_shrinks_total", "Replicas removed from in-sync sets by leaders on this node.")
	h.isrExpands = one("brokerd_isr_expands_total", "Replicas added to in-sync sets by leaders on this node.")
}

// ObserveChange records an applied command: the elections and the changes of
// in-sync sets in it.
func (h *Histograms) ObserveChange(c meta.Command, r meta.Result) {
	switch c := c.(type) {
	case meta.ElectLeaders:
		for i := range c.Elections {
			if i >= len(r.Failed) || r.Failed[i] == nil {
				h.countElection(&c.Elections[i])
			}
		}
	case meta.AlterISR:
		if c.Joiner != "" {
			h.isrExpands.Inc()
		} else {
			h.isrShrinks.Inc()
		}
	}
}

// countElection counts the election of a leader. An election without a leader,
// which only records that a partition is offline, does not count.
func (h *Histograms) countElection(e *meta.Election) {
	if e.Leader == "" {
		return
	}
	if e.Unclean {
		h.unclean.Inc()
	}
	if counter, known := h.elections[e.Reason]; known {
		counter.Inc()
		return
	}
	h.otherElection.Inc()
}

func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeMaxBuckets,
		NativeHistogramMinResetDuration: nativeMinInterval,
	}
}

// ObservePublish records an answered publish: its duration and outcome. A nil
// err means that it was stored.
func (h *Histograms) ObservePublish(d time.Duration, err error) {
	h.publish[resultOf(err)].Observe(d.Seconds())
	if err != nil {
		h.publishErrors[reasonOf(err)].Inc()
	}
}

// ObserveBatch records the number of messages that were written together.
func (h *Histograms) ObserveBatch(messages int) {
	h.batch.Observe(float64(messages))
}

// ObserveFsync records a sync of a log.
func (h *Histograms) ObserveFsync(d time.Duration) {
	h.logSync.Observe(d.Seconds())
}

// ObserveAppend records a write of a batch to a log.
func (h *Histograms) ObserveAppend(d time.Duration) {
	h.logAppend.Observe(d.Seconds())
}

// ObserveFinish records a finished message: the time since its last delivery, and the
// number of that attempt. The broker samples messages.
func (h *Histograms) ObserveFinish(d time.Duration, attempts int) {
	h.processing.Observe(d.Seconds())
	h.attempts.Observe(float64(attempts))
}

// ObserveRaftCommit records the total duration of a metadata command.
func (h *Histograms) ObserveRaftCommit(d time.Duration) {
	h.raftCommit.Observe(d.Seconds())
}

// ObserveReplication records how long a follower took to store what it was sent.
func (h *Histograms) ObserveReplication(d time.Duration) {
	h.replication.Observe(d.Seconds())
}

// ObserveAct records an operator's act, by a fixed name, never one that a client chose,
// and the status of its response.
func (h *Histograms) ObserveAct(action string, status int) {
	result := "done"
	switch {
	case status >= http.StatusInternalServerError:
		result = "failed"
	case status >= http.StatusBadRequest:
		result = "refused"
	}
	h.acts.WithLabelValues(action, result).Inc()
}

// ObserveDelivery records the time from the append of a message to its first
// delivery. The broker samples the first of the messages that it delivers
// together.
func (h *Histograms) ObserveDelivery(d time.Duration) {
	h.delivery.Observe(d.Seconds())
}

// ObserveHTTP records an HTTP request. route is a pattern, never a path that a
// client chose.
func (h *Histograms) ObserveHTTP(route string, status int, d time.Duration) {
	h.httpRequests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	h.httpDuration.WithLabelValues(route).Observe(d.Seconds())
}
