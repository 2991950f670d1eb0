package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/dedup"
	"github.com/brokerd/brokerd/pkg/health"
)

// electionTime is how long an election of the metadata's leader may take until its
// lack is worth telling: one that goes well takes less.
const electionTime = 3 * time.Second

// Health tells whether the cluster does what it should, and what is wrong if
// it does not.
func (b *Broker) Health() health.Report {
	h := health.Report{Healthy: true, Reasons: b.Ready()}
	h.Healthy = len(h.Reasons) == 0
	if n, _ := b.damage.counts(); n > 0 {
		h.Degraded = true
		h.Reasons = append(h.Reasons, health.Reason{Code: "log_corrupt", Count: n, What: "log ranges are corrupt on disk; repaired from an in-sync replica if there is one, otherwise the intact messages are served"})
	}
	if n := int(b.strays.Load()); n > 0 {
		h.Degraded = true
		h.Reasons = append(h.Reasons, health.Reason{Code: "stray_data", Count: n, What: "directories of topics unknown to the metadata or of another cluster; the metadata may have been lost"})
	}
	if used, most, _ := b.budget.Usage(); 2*used >= most {
		h.Degraded = true
		h.Reasons = append(h.Reasons, health.Reason{Code: "uncommitted_budget", Count: 1, What: fmt.Sprintf(
			"%d of %d bytes of uncommitted data in use: publishers to slow partitions wait or are refused", used, most)})
	}
	for _, r := range slices.Concat((quarantine{b.hosting}).reasons(), b.stalls.reasons(time.Now(), stallRole, stallFollower)) {
		h.Reasons = append(h.Reasons, r)
		if health.GravityOf(r.Code) == health.Failing {
			h.Healthy = false
		} else {
			h.Degraded = true
		}
	}
	if names := spinning(b.hostedTopics(), time.Now()); len(names) > 0 {
		h.Reasons = append(h.Reasons, health.Reason{Code: "messages_spinning", Count: len(names), What: fmt.Sprintf(
			"consumers requeue messages as soon as they get them, over %d times a second: %s", channel.SpinRate, health.Names(names))})
	}
	h.Reasons = append(h.Reasons, boundReasons(b.hostedTopics(), time.Now())...)
	h.Degraded = h.Degraded || slices.ContainsFunc(h.Reasons, func(r health.Reason) bool { return r.Code == "topics_full" })
	for _, r := range failingReasons(b.hostedTopics(), b.letters) {
		h.Reasons = append(h.Reasons, r)
		h.Degraded = h.Degraded || health.GravityOf(r.Code) == health.Degrading
	}
	offline := 0
	for _, t := range b.Topics() {
		for i := range t.Partitions {
			if t.Partitions[i].Leader == "" {
				offline++
			}
		}
	}
	if offline > 0 {
		h.Healthy = false
		h.Reasons = append(h.Reasons, health.Reason{Code: "partitions_offline", Count: offline, What: "partitions have no leader"})
	}
	return h
}

// spinning names the messages that consumers requeue as soon as they get them.
func spinning(topics []*hostedTopic, now time.Time) []string {
	var names []string
	for _, h := range topics {
		for _, lp := range h.led() {
			for _, c := range lp.part.Channels() {
				for _, x := range c.Spins.At(now) {
					names = append(names, fmt.Sprintf("%s/%s partition %d seq %d (%.0f/s)", h.name, c.Name(), lp.index, x.Offset, x.PerSecond))
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// Ready returns why this node cannot serve everything just now; nothing: it can.
func (b *Broker) Ready() []health.Reason {
	var reasons []health.Reason
	if err := b.failed.Load(); err != nil {
		reasons = append(reasons, health.Reason{Code: "disk_failed", Count: 1, What: (*err).Error()})
	}
	if b.lowDisk.Load() {
		reasons = append(reasons, health.Reason{Code: "disk_full", Count: 1, What: "disk nearly full: publishes are refused"})
	}
	if r, ok := leaderless(b.o.Meta.Members().Leaderless(), b.silent()); ok {
		reasons = append(reasons, r)
	}
	reasons = append(reasons, b.stalls.reasons(time.Now(), stallLead)...)
	if b.exiting.Load() {
		reasons = append(reasons, health.Reason{Code: "exiting", Count: 1, What: "node is shutting down"})
	}
	return reasons
}

// leaderless says whether the lack of a leader of the metadata is worth telling, and
// how. silent are the members that do not answer.
func leaderless(gone time.Duration, silent []string) (health.Reason, bool) {
	if gone <= electionTime {
		return health.Reason{}, false
	}
	what := fmt.Sprintf("no metadata leader for %v: nothing can be created or changed", gone.Round(time.Second))
	if len(silent) > 0 {
		what += "; no answer from " + strings.Join(silent, " ")
	}
	return health.Reason{Code: "no_controller", Count: 1, What: what}, true
}

// boundReasons names the topics that refuse messages since they are full, and those of which
// so many dedup ids came that some were forgotten before their window was over.
func boundReasons(topics []*hostedTopic, now time.Time) (reasons []health.Reason) {
	var full, short []string
	for _, h := range topics {
		if h.disk.Full(now) {
			full = append(full, h.name)
		}
		for _, lp := range h.led() {
			if k := lp.once.Load(); k != nil && k.Counts().Forgotten > 0 {
				short = append(short, fmt.Sprintf("%s/%d", h.name, lp.index))
			}
		}
	}
	if len(full) > 0 {
		reasons = append(reasons, health.Reason{Code: "topics_full", Count: len(full), What: fmt.Sprintf(
			"hold max-bytes and refuse messages: %s; consume them, or raise max-bytes", health.Names(full))})
	}
	if len(short) > 0 {
		reasons = append(reasons, health.Reason{Code: "dedup_window_short", Count: len(short), What: fmt.Sprintf(
			"got over %d dedup ids within the window, and forgot the oldest: %s", dedup.DefaultMost, health.Names(short))})
	}
	return reasons
}
