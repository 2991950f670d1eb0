package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
)

// electionTime is how long an election of the metadata's leader may take until its
// lack is worth telling: one that goes well takes less.
const electionTime = 3 * time.Second

// Health tells whether the cluster does what it should, and what is wrong if
// it does not.
func (b *Broker) Health() Health {
	h := Health{Healthy: true, Reasons: b.Ready()}
	h.Healthy = len(h.Reasons) == 0
	if n, _ := b.damage.counts(); n > 0 {
		h.Degraded = true
		h.Reasons = append(h.Reasons, HealthReason{"log_corrupt", n, "log ranges are corrupt on disk; repaired from an in-sync replica if there is one, otherwise the intact messages are served"})
	}
	if n := int(b.strays.Load()); n > 0 {
		h.Degraded = true
		h.Reasons = append(h.Reasons, HealthReason{"stray_data", n, "directories of topics unknown to the metadata or of another cluster; the metadata may have been lost"})
	}
	if used, most, _ := b.budget.Usage(); 2*used >= most {
		h.Degraded = true
		h.Reasons = append(h.Reasons, HealthReason{"uncommitted_budget", 1, fmt.Sprintf(
			"%d of %d bytes of uncommitted data in use: publishers to slow partitions wait or are refused", used, most)})
	}
	for _, r := range slices.Concat((quarantine{b.hosting}).reasons(), b.stalls.reasons(time.Now(), stallRole, stallFollower)) {
		h.Reasons = append(h.Reasons, r)
		if gravityOf(r.Code) == failing {
			h.Healthy = false
		} else {
			h.Degraded = true
		}
	}
	if names := spinning(b.hostedTopics(), time.Now()); len(names) > 0 {
		h.Reasons = append(h.Reasons, HealthReason{"messages_spinning", len(names), fmt.Sprintf(
			"consumers requeue messages as soon as they get them, over %d times a second: %s", channel.SpinRate, namesOf(names))})
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
		h.Reasons = append(h.Reasons, HealthReason{"partitions_offline", offline, "partitions have no leader"})
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
func (b *Broker) Ready() []HealthReason {
	var reasons []HealthReason
	if err := b.failed.Load(); err != nil {
		reasons = append(reasons, HealthReason{"disk_failed", 1, (*err).Error()})
	}
	if b.lowDisk.Load() {
		reasons = append(reasons, HealthReason{"disk_full", 1, "disk nearly full: publishes are refused"})
	}
	if r, ok := leaderless(b.o.Meta.Members().Leaderless(), b.silent()); ok {
		reasons = append(reasons, r)
	}
	reasons = append(reasons, b.stalls.reasons(time.Now(), stallLead)...)
	if b.exiting.Load() {
		reasons = append(reasons, HealthReason{"exiting", 1, "node is shutting down"})
	}
	return reasons
}

// leaderless says whether the lack of a leader of the metadata is worth telling, and
// how. silent are the members that do not answer.
func leaderless(gone time.Duration, silent []string) (HealthReason, bool) {
	if gone <= electionTime {
		return HealthReason{}, false
	}
	what := fmt.Sprintf("no metadata leader for %v: nothing can be created or changed", gone.Round(time.Second))
	if len(silent) > 0 {
		what += "; no answer from " + strings.Join(silent, " ")
	}
	return HealthReason{"no_controller", 1, what}, true
}
