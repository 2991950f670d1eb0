package v1

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/meta"
)

// A channel with waiting messages, and one consumer that finishes them.
func busyChannel() api.Channel {
	return api.Channel{
		Topic:         "t",
		ChannelCounts: api.ChannelCounts{Depth: 10, InFlight: 2, FinishedTotal: 100},
		Name:          "c",
		OldestAge:     api.Duration(3 * time.Second),
		Consumers:     []api.Consumer{{Address: "10.0.0.9:1", ClientID: "worker", Ready: 5, InFlight: 2, ConnectedAt: time.Now()}},
		Partitions:    []api.ChannelPartition{{Partition: 0, Leader: "n1"}},
	}
}

// full makes the last partition of a topic full, whose messages the channel "slow" has not finished.
func full(t *api.Topic, since time.Time) {
	t.Config.MaxBytes, t.Config.OnFull, t.FullSince = int64(len(t.Partitions))<<22, api.OnFullReject, &since
	t.Partitions[len(t.Partitions)-1].Bytes = 1 << 22
	t.Channels = []api.ChannelSummary{{Name: "c"}, {Name: "slow", Depth: 7, InFlight: 2, Deferred: 1}, {Name: "x", Depth: 9}}
}

// A full topic names the channel with the most unfinished messages, if one has any.
func TestFullTopicNamesTheSlowestChannel(t *testing.T) {
	topic := api.Topic{Name: "t", Partitions: []api.Partition{{Leader: "n1"}}}
	full(&topic, time.Now())
	c := busyChannel()
	c.Depth, c.InFlight = 0, 0
	for _, want := range []string{"finish messages of t/slow, which has most of them, 10: brokerctl channel explain t/slow; or brokerctl topic alter t --max-bytes", "brokerctl topic alter t --max-bytes"} {
		if e := explained(&topic, observation{before: &c, now: &c}, nil); len(e.Causes) != 1 || !strings.HasPrefix(e.Causes[0].Do, want) {
			t.Errorf("%+v, want %q", e.Causes, want)
		}
		topic.Channels = nil
	}
	topic.Config.Retention = api.Duration(72 * time.Hour)
	if e := explained(&topic, observation{before: &c, now: &c}, nil); len(e.Causes) != 1 || !strings.HasSuffix(e.Causes[0].What, "retention of 72h") || !strings.HasPrefix(e.Causes[0].Do, "shorten the retention") {
		t.Errorf("finished messages are kept: %+v", e.Causes)
	}
}

func TestExplained(t *testing.T) {
	two := api.Topic{Name: "t", Depth: 7, Partitions: []api.Partition{{Partition: 0, Leader: "n1"}, {Partition: 1, Leader: "n2"}}}
	for name, x := range map[string]struct {
		topic  func(*api.Topic)
		before func(*api.Channel) // than both observations
		now    func(*api.Channel)
		rates  flow.Rates
		silent bool // the consumer answers nothing between the observations
		moving bool
		causes []api.CauseCode
		says   string // of the first cause
		count  int64
	}{
		"moves":             {now: func(c *api.Channel) { c.FinishedTotal++ }, moving: true},
		"no cause is found": {},
		"empty and without consumers": {
			before: func(c *api.Channel) { c.Depth, c.InFlight, c.Consumers = 0, 0, nil }, moving: true,
		},
		"no consumer": {
			before: func(c *api.Channel) { c.Consumers, c.InFlight = nil, 0 },
			causes: []api.CauseCode{api.CauseNoConsumer}, says: "no consumer", count: 10,
		},
		"paused, and nobody there": {
			before: func(c *api.Channel) { c.Paused, c.Consumers, c.InFlight = true, nil, 0 },
			causes: []api.CauseCode{api.CausePaused, api.CauseNoConsumer}, says: "10 messages wait", count: 10,
		},
		"the topic is paused": {
			topic:  func(t *api.Topic) { t.Paused = true },
			causes: []api.CauseCode{api.CauseTopicPaused}, says: "7 messages", count: 7,
		},
		"the topic is paused, and the channel has nothing": {
			topic:  func(t *api.Topic) { t.Paused = true },
			before: func(c *api.Channel) { c.Depth, c.InFlight = 0, 0 },
			causes: []api.CauseCode{api.CauseTopicPaused}, says: "7 messages", count: 7,
		},
		"the topic is full, and another channel keeps its messages": {
			topic:  func(t *api.Topic) { full(t, time.Now()) },
			before: func(c *api.Channel) { c.Depth, c.InFlight = 0, 0 }, moving: true,
			causes: []api.CauseCode{api.CauseTopicFull}, says: "1 of 2 partitions have reached their share, 4MiB, of its max-bytes 8MiB: 1 (4MiB)", count: 1,
		},
		"the topic has no room for a batch": {
			topic:  func(t *api.Topic) { full(t, time.Now()); t.Partitions[1].Bytes, t.RefusedSize = 3<<20, 2<<20 },
			before: func(c *api.Channel) { c.Depth, c.InFlight = 0, 0 }, moving: true,
			causes: []api.CauseCode{api.CauseTopicFull}, says: "the topic refuses publishes, the last one of 2MiB: 1 of 2 partitions have reached their share, 4MiB, of its max-bytes 8MiB: 1 (3MiB)", count: 1,
		},
		"the topic had no room for a batch, and has it now": {
			topic:  func(t *api.Topic) { full(t, time.Now()); t.Partitions[1].Bytes, t.RefusedSize = 2<<20, 2<<20 },
			before: func(c *api.Channel) { c.Depth, c.InFlight = 0, 0 }, moving: true,
		},
		"the topic is full because of this channel": {
			topic:  func(t *api.Topic) { full(t, time.Now()) },
			before: func(c *api.Channel) { c.Paused = true },
			causes: []api.CauseCode{api.CausePaused, api.CauseTopicFull}, says: "the channel is paused", count: 10,
		},
		"the topic was full, and drops messages now": {
			topic:  func(t *api.Topic) { full(t, time.Now()); t.Config.OnFull = api.OnFullDrop },
			before: func(c *api.Channel) { c.Depth, c.InFlight = 0, 0 }, moving: true,
		},
		"the topic was full, and may be larger now": {
			topic:  func(t *api.Topic) { full(t, time.Now()); t.Config.MaxBytes *= 2 },
			before: func(c *api.Channel) { c.Depth, c.InFlight = 0, 0 }, moving: true,
		},
		"nothing was refused by the full topic": {
			topic:  func(t *api.Topic) { full(t, time.Now()); t.FullSince = nil },
			before: func(c *api.Channel) { c.Depth, c.InFlight = 0, 0 }, moving: true,
		},
		"paused with nothing to deliver": {
			topic:  func(t *api.Topic) { t.Paused, t.Depth = true, 0 },
			before: func(c *api.Channel) { c.Depth, c.InFlight, c.Paused = 0, 0, true }, moving: true,
		},
		"without a leader, though it moves elsewhere": {
			topic: func(t *api.Topic) { t.Partitions[1].Leader = "" },
			now:   func(c *api.Channel) { c.FinishedTotal++ }, moving: true,
			causes: []api.CauseCode{api.CauseNoLeader}, says: "1 of 2 partitions have no leader: 1", count: 1,
		},
		"nothing is known of a partition, and nothing waits in the other": {
			before: func(c *api.Channel) { c.Depth, c.InFlight, c.MissingNodes = 0, 0, []string{"n2"} }, moving: true,
			causes: []api.CauseCode{api.CauseNoLeader}, says: "1 of 2 partitions do not answer: 1 (n2)", count: 1,
		},
		"nobody asks": {
			before: func(c *api.Channel) { c.Consumers[0].Ready, c.Consumers[0].InFlight, c.InFlight = 0, 0, 0 },
			causes: []api.CauseCode{api.CauseReadyZero}, says: "1 of 1 consumers request no messages (RDY 0): worker (10.0.0.9:1)", count: 1,
		},
		"one backs off": {
			before: func(c *api.Channel) {
				c.Consumers[0].Ready, c.Consumers[0].InFlight, c.InFlight, c.Consumers[0].RequeuedTotal = 0, 0, 0, 3
			},
			causes: []api.CauseCode{api.CauseBackoff}, says: "have requeued some", count: 1,
		},
		"all that may be in flight is": {
			before: func(c *api.Channel) { c.Consumers[0].Ready = 2 },
			causes: []api.CauseCode{api.CauseInFlightHeld}, says: "1 of 1 consumers hold as many messages as their RDY allows, 2 in all", count: 2,
		},
		"RDY 0 behind what it still holds": {
			before: func(c *api.Channel) { c.Consumers[0].Ready = 0 },
			causes: []api.CauseCode{api.CauseInFlightHeld}, says: "2 in all", count: 2,
		},
		"one holds all and answers none, though it may have more": {
			silent: true,
			before: func(c *api.Channel) {
				c.Depth, c.Consumers[0].ConnectedAt, c.Consumers[0].FinishedTotal = 0, time.Now().Add(-27*time.Second), 0
			},
			causes: []api.CauseCode{api.CauseInFlightHeld}, count: 2,
			says: "1 of 1 consumers hold all 2 messages in flight and have answered none since they connected: worker (10.0.0.9:1), connected for 27s",
		},
		"one holds some, others answer": {
			silent: true,
			before: func(c *api.Channel) {
				c.Depth, c.InFlight, c.Consumers[0].ConnectedAt = 0, 3, time.Now().Add(-2*time.Minute)
				c.Consumers = append(c.Consumers, api.Consumer{Address: "10.0.0.9:2", Ready: 5, InFlight: 1, FinishedTotal: 8})
			},
			now: func(c *api.Channel) {
				c.FinishedTotal = 101
				c.Consumers[1].FinishedTotal++
			},
			moving: true,
			causes: []api.CauseCode{api.CauseInFlightHeld}, count: 2,
			says: "1 of 2 consumers hold 2 of 3 messages in flight and have answered none since they connected: worker (10.0.0.9:1), connected for 2m",
		},
		"one has answered before, but does no longer": {
			silent: true,
			before: func(c *api.Channel) { c.Consumers[0].FinishedTotal = 100 },
			causes: []api.CauseCode{api.CauseInFlightHeld}, count: 2,
			says: "1 of 1 consumers hold all 2 messages in flight and have answered none during the observation of 1s: worker (10.0.0.9:1)",
		},
		"one has just come": {
			silent: true,
			now: func(c *api.Channel) {
				c.Consumers = []api.Consumer{{Address: "10.0.0.9:7", Ready: 5, InFlight: 2, ConnectedAt: time.Now()}}
			},
		},
		"one requeues what it gets": {
			silent: true,
			now: func(c *api.Channel) {
				c.Consumers[0].RequeuedTotal += 17
				c.RequeuedTotal += 17
			},
			causes: []api.CauseCode{api.CauseRequeued}, count: 17,
			says: "1 of 1 consumers requeue what they receive, and none finishes a message: 17 requeued during the observation: worker (10.0.0.9:1)",
		},
		"one requeues what it gets, and always has as much as its RDY allows": {
			silent: true,
			before: func(c *api.Channel) { c.Consumers[0].Ready = 2 },
			now: func(c *api.Channel) {
				c.Consumers[0].RequeuedTotal++
				c.RequeuedTotal++
			},
			causes: []api.CauseCode{api.CauseRequeued}, count: 1,
		},
		"one requeues what it gets, another holds what it has": {
			silent: true,
			before: func(c *api.Channel) {
				c.Consumers = append(c.Consumers, api.Consumer{Address: "10.0.0.9:2", Ready: 2, InFlight: 2})
			},
			now: func(c *api.Channel) {
				c.Consumers[0].RequeuedTotal++
				c.RequeuedTotal++
			},
			causes: []api.CauseCode{api.CauseRequeued, api.CauseInFlightHeld}, count: 1, says: "1 of 2 consumers requeue",
		},
		"one requeues what it gets, and others finish": {
			silent: true,
			now: func(c *api.Channel) {
				c.Consumers[0].RequeuedTotal++
				c.RequeuedTotal++
				c.FinishedTotal++
			},
			moving: true,
		},
		"all that may be in flight is, and consumers make progress": {
			before: func(c *api.Channel) { c.Consumers[0].Ready = 2 },
			now:    func(c *api.Channel) { c.FinishedTotal++ }, moving: true,
		},
		"one consumer keeps a message while another makes progress": {
			before: func(c *api.Channel) {
				c.Consumers[0].Ready, c.Consumers[0].FinishedTotal = 2, 9
				c.Consumers[0].Oldest = &api.HeldMessage{Seq: 3, Since: time.Now().Add(-5 * time.Minute)}
				c.Consumers = append(c.Consumers, api.Consumer{Address: "10.0.0.9:2", Ready: 1, InFlight: 1, FinishedTotal: 8})
			},
			now: func(c *api.Channel) { c.FinishedTotal++ }, rates: flow.Rates{In: 1, Out: 2}, moving: true,
			causes: []api.CauseCode{api.CauseInFlightHeld}, says: "worker (10.0.0.9:1) has 0/3 for 5m", count: 2,
		},
		"a slow consumer, and none was to be expected during the observation": {
			before: func(c *api.Channel) {
				c.Consumers[0].Ready = 2
				c.Consumers[0].Oldest = &api.HeldMessage{Seq: 3, Since: time.Now().Add(-29 * time.Second)}
			},
			rates: flow.Rates{In: 0.01, Out: 0.1}, moving: true,
			causes: []api.CauseCode{api.CauseSlowConsumer}, count: 10,
			says: "0.01/s in, 0.1/s out by 1 consumer, 10 messages wait: none will wait in about 1m51s",
		},
		"a slow consumer that has stopped": {
			before: func(c *api.Channel) {
				c.Consumers[0].Ready = 2
				c.Consumers[0].Oldest = &api.HeldMessage{Seq: 3, Since: time.Now().Add(-31 * time.Second)}
			},
			rates:  flow.Rates{In: 0.01, Out: 0.1},
			causes: []api.CauseCode{api.CauseInFlightHeld}, count: 2, says: "1 of 1 consumers hold as many",
		},
		"a consumer that has stopped a moment ago": {
			before: func(c *api.Channel) { c.Consumers[0].Ready = 2 }, rates: flow.Rates{In: 5, Out: 4},
			causes: []api.CauseCode{api.CauseInFlightHeld}, count: 2, says: "1 of 1 consumers hold as many",
		},
		"more comes than the consumer finishes": {
			before: func(c *api.Channel) { c.Depth = 9000 },
			now:    func(c *api.Channel) { c.FinishedTotal++ }, rates: flow.Rates{In: 26, Out: 1.6}, moving: true,
			causes: []api.CauseCode{api.CauseSlowConsumer}, count: 9000,
			says: "26/s in, 1.6/s out by 1 consumer, 9000 messages wait: about 16 more consumers like these would keep up",
		},
		"more comes than may be delivered": {
			before: func(c *api.Channel) { c.RateLimited, c.Policy.Rate = true, 2 },
			now:    func(c *api.Channel) { c.FinishedTotal++ }, rates: flow.Rates{In: 26, Out: 1.6}, moving: true,
			causes: []api.CauseCode{api.CauseRateLimited}, says: "at most 2 messages per second, and 10 are waiting", count: 10,
		},
		"strict order": {
			before: func(c *api.Channel) { c.Ordered, c.Consumers[0].InFlight, c.InFlight = true, 1, 1 },
			causes: []api.CauseCode{api.CauseInFlightHeld}, says: "one message of a partition at a time", count: 1,
		},
		"messages time out": {
			before: func(c *api.Channel) { c.TimedOutTotal, c.Consumers[0].TimedOutTotal = 4, 4 },
			now:    func(c *api.Channel) { c.TimedOutTotal = 6 },
			causes: []api.CauseCode{api.CauseSlowConsumer}, says: "(2 during the observation)", count: 1,
		},
		"messages spin": {
			before: func(c *api.Channel) {
				c.Partitions[0].Spinning = []api.SpinningMessage{{Seq: 9, PerSecond: 250}, {Seq: 12, PerSecond: 101}}
			},
			causes: []api.CauseCode{api.CauseSpinning}, says: "0/9 (250 a second), 0/12", count: 2,
		},
		"a message has had all its attempts and blocks": {
			before: func(c *api.Channel) {
				c.Exhausted, c.Partitions[0].Blocked, c.Policy.MaxAttempts = 1, new(uint64(7)), 5
			},
			causes: []api.CauseCode{api.CauseExhausted}, says: "have used up their 5 attempts and block, they are not delivered; the first, partition/sequence: 0/7", count: 1,
		},
		"dead letters are not taken": {
			before: func(c *api.Channel) { c.Exhausted, c.Policy.DeadLetterTopic = 3, "t.c.dlq" },
			causes: []api.CauseCode{api.CauseExhausted}, says: "wait to be moved to t.c.dlq", count: 3,
		},
		"expired messages are not taken": {
			before: func(c *api.Channel) { c.Expired, c.Policy.DeadLetterTopic = 3, "t.c.dlq" },
			causes: []api.CauseCode{api.CauseExhausted}, says: "3 messages have expired and wait to be moved to t.c.dlq", count: 3,
		},
		"the rate is reached": {
			before: func(c *api.Channel) { c.RateLimited, c.Policy.Rate = true, 100 },
			causes: []api.CauseCode{api.CauseRateLimited}, says: "at most 100 messages per second, and 10 are waiting", count: 10,
		},
		"the channel backs off": {
			before: func(c *api.Channel) { c.BackingOff, c.Policy.Backoff = 4, "1s..10m" },
			causes: []api.CauseCode{api.CauseBackoff}, says: "4 failed messages wait for the channel's backoff of 1s..10m", count: 4,
		},
		"deferred, and the channel is in order": {
			before: func(c *api.Channel) { c.Ordered, c.InFlight, c.Deferred, c.Consumers[0].InFlight = true, 0, 1, 0 },
			causes: []api.CauseCode{api.CauseDeferred}, says: "10 ready messages wait", count: 1,
		},
		"deferred, in order, and the consumer requests nothing": {
			before: func(c *api.Channel) {
				c.Ordered, c.InFlight, c.Deferred, c.Consumers[0].InFlight, c.Consumers[0].Ready = true, 0, 1, 0, 0
			},
			causes: []api.CauseCode{api.CauseReadyZero}, says: "RDY 0", count: 1,
		},
		"deferred, in order, and paused": {
			before: func(c *api.Channel) {
				c.Ordered, c.Paused, c.InFlight, c.Deferred, c.Consumers[0].InFlight = true, true, 0, 1, 0
			},
			causes: []api.CauseCode{api.CausePaused}, says: "10 messages wait", count: 10,
		},
		"deferred, and others are in flight though the channel is in order": {
			before: func(c *api.Channel) { c.Ordered, c.Deferred = true, 1 },
			causes: []api.CauseCode{api.CauseInFlightHeld}, says: "1 of 1", count: 2,
		},
		"all are deferred": {
			before: func(c *api.Channel) { c.Depth, c.InFlight, c.Deferred, c.Consumers[0].InFlight = 0, 0, 3, 0 },
			causes: []api.CauseCode{api.CauseDeferred}, says: "all 3", count: 3,
		},
		"all are deferred, and there is no consumer": {
			before: func(c *api.Channel) { c.Depth, c.InFlight, c.Deferred, c.Consumers = 0, 0, 3, nil },
			causes: []api.CauseCode{api.CauseDeferred, api.CauseNoConsumer}, says: "all 3", count: 3,
		},
		"all are deferred, and the consumer is at RDY 0": {
			before: func(c *api.Channel) {
				c.Depth, c.InFlight, c.Deferred, c.Consumers[0].InFlight, c.Consumers[0].Ready = 0, 0, 3, 0, 0
			},
			causes: []api.CauseCode{api.CauseDeferred, api.CauseReadyZero}, says: "all 3", count: 3,
		},
		"all are deferred, as a consumer that backs off has requeued them": {
			before: func(c *api.Channel) {
				c.Depth, c.InFlight, c.Deferred = 0, 0, 3
				c.Consumers[0].InFlight, c.Consumers[0].Ready, c.Consumers[0].RequeuedTotal = 0, 0, 3
			},
			causes: []api.CauseCode{api.CauseBackoff, api.CauseDeferred}, says: "have requeued some", count: 1,
		},
		"all are deferred, and the channel is paused": {
			before: func(c *api.Channel) {
				c.Depth, c.InFlight, c.Deferred, c.Consumers[0].InFlight, c.Paused = 0, 0, 3, 0, true
			},
			causes: []api.CauseCode{api.CausePaused, api.CauseDeferred}, says: "is paused", count: 0,
		},
		"a message is suspected of ending its consumers": {
			before: func(c *api.Channel) {
				c.Partitions[0].Suspects = &api.Suspects{Count: 3, Seq: 7, InFlight: true, Failed: 1}
			},
			causes: []api.CauseCode{api.CauseSuspects}, count: 3,
			says: "one at a time; the suspect, sequence 7, is in flight and has failed 1 times alone",
		},
		"messages wait for their keys": {
			before: func(c *api.Channel) {
				c.Partitions[0].KeyBlocked = &api.KeyBlock{Key: "a", Seq: 7, State: "in_flight", Waiting: 3, Tracked: 6}
			},
			causes: []api.CauseCode{api.CauseKeyBlocked}, count: 3,
			says: `all ready messages of partition 0 wait for earlier messages of the same key; of 6 messages, the earlier ones included, most, 3, have key "a", whose sequence 7 is in flight`,
		},
	} {
		topic, before := two, busyChannel()
		topic.Partitions = slices.Clone(two.Partitions)
		if x.topic != nil {
			x.topic(&topic)
		}
		if x.before != nil {
			x.before(&before)
		}
		now := before
		if now.Consumers = slices.Clone(now.Consumers); len(now.Consumers) > 0 && !x.silent {
			now.Consumers[0].FinishedTotal++
		}
		if x.now != nil {
			x.now(&now)
		}
		e := explained(&topic, observation{&before, &now, x.rates, time.Second}, nil)
		var codes []api.CauseCode
		for _, c := range e.Causes {
			codes = append(codes, c.Code)
			if c.Do == "" {
				t.Errorf("%s: nothing helps against %s", name, c.Code)
			}
		}
		if e.Moving != x.moving || !slices.Equal(codes, x.causes) {
			t.Errorf("%s: moving %v, %q; want %v, %q", name, e.Moving, codes, x.moving, x.causes)
			continue
		}
		if len(codes) > 0 && (!strings.Contains(e.Causes[0].What, x.says) || e.Causes[0].Count != x.count) {
			t.Errorf("%s: %d, %q; want %d, %q", name, e.Causes[0].Count, e.Causes[0].What, x.count, x.says)
		}
		if e.Causes == nil || e.Topic != "t" || e.Channel != "c" || e.Ready != now.Depth || e.OldestAgeMS != 3000 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestExplanationNamesAFew(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "a", 3: "a, b, c", 5: "a, b, c and 2 more"} {
		if got := list([]string{"a", "b", "c", "d", "e"}[:n]); got != want {
			t.Errorf("%d names: %q, not %q", n, got, want)
		}
	}
}

// A program can tell for how long a channel has had a problem.
func TestCauseSaysSinceWhen(t *testing.T) {
	now := time.Now()
	left, taken := now.Add(-2*time.Hour), now.Add(-5*time.Minute)
	topic := api.Topic{Name: "t", Partitions: []api.Partition{{Leader: "n1"}}}
	for name, x := range map[string]struct {
		change func(*api.Channel)
		since  time.Time
		says   string
		topic  func(*api.Topic)
	}{
		"the channel is paused": {change: func(c *api.Channel) { c.Paused = true }, since: taken, says: "the channel is paused"},
		"the topic is paused":   {change: func(*api.Channel) {}, since: taken, says: "the topic is paused", topic: func(t *api.Topic) { t.Paused, t.Depth = true, 3 }},
		"the topic is full":     {change: func(c *api.Channel) { c.Depth, c.InFlight = 0, 0 }, since: taken, says: "refuses publishes", topic: func(t *api.Topic) { full(t, taken) }},
		"no leader":             {change: func(*api.Channel) {}, since: taken, says: "have no leader", topic: func(t *api.Topic) { t.Partitions[0].Leader = "" }},
		"a silent leader":       {change: func(c *api.Channel) { c.MissingNodes = []string{"n1"} }, since: taken, says: "do not answer"},
		"a rate":                {change: func(c *api.Channel) { c.RateLimited, c.OldestAge = true, api.Duration(now.Sub(taken)) }, since: taken, says: "per second"},
		"deferred, in order": {change: func(c *api.Channel) {
			c.Ordered, c.InFlight, c.Deferred, c.Consumers[0].InFlight, c.OldestAge = true, 0, 1, 0, api.Duration(now.Sub(taken))
		}, since: taken, says: "delivers in order"},
		"RDY 0, connected late": {change: func(c *api.Channel) {
			c.InFlight, c.OldestAge = 0, api.Duration(now.Sub(left))
			c.Consumers[0].InFlight, c.Consumers[0].Ready, c.Consumers[0].RequeuedTotal, c.Consumers[0].ConnectedAt = 0, 0, 0, taken
		}, since: taken, says: "RDY 0"},
		"RDY 0, message late": {change: func(c *api.Channel) {
			c.InFlight, c.OldestAge = 0, api.Duration(now.Sub(taken))
			c.Consumers[0].InFlight, c.Consumers[0].Ready, c.Consumers[0].RequeuedTotal, c.Consumers[0].ConnectedAt = 0, 0, 0, left
		}, since: taken, says: "RDY 0"},
		"the last consumer left": {change: func(c *api.Channel) {
			c.Consumers, c.InFlight, c.LastConsumer, c.LeftAt = nil, 0, "worker-7 (10.0.0.9:1)", &left
		}, since: left, says: "no consumer is subscribed; the last one, worker-7 (10.0.0.9:1), left 2h ago"},
		"never consumed": {change: func(c *api.Channel) {
			c.Consumers, c.InFlight, c.OldestAge = nil, 0, api.Duration(now.Sub(left))
		}, since: left, says: "and none was since the leaders of the partitions took over"},
		"a consumer holds a message": {change: func(c *api.Channel) {
			c.Consumers[0].Ready, c.Consumers[0].Oldest = 2, &api.HeldMessage{Partition: 3, Seq: 17, Since: taken}
		}, since: taken, says: "2 in all: worker (10.0.0.9:1) has 3/17 for 5m"},
	} {
		c := busyChannel()
		x.change(&c)
		before := c
		topic := topic
		if x.topic != nil {
			topic.Partitions = slices.Clone(topic.Partitions)
			x.topic(&topic)
		}
		e := explained(&topic, observation{before: &before, now: &c, watched: time.Second}, []*meta.Event{
			{At: taken.Add(-time.Hour).UnixNano(), Kind: "topic_paused", Object: "t"},
			{At: taken.UnixNano(), Kind: "topic_resumed", Object: "t"},
			{At: taken.UnixNano(), Kind: "topic_paused", Object: "t"},
			{At: now.UnixNano(), Kind: "topic_paused", Object: "other"},
			{At: now.UnixNano(), Kind: "topic_resumed", Object: "other"},
			{At: taken.UnixNano(), Kind: "channel_paused", Object: "t/c"},
			{At: taken.UnixNano(), Kind: "partition_offline", Object: "a/1 t/0 b/0 and 3 more"},
			{At: taken.UnixNano(), Kind: "node_down", Object: "n1"},
		})
		if len(e.Causes) == 0 || e.Causes[0].Since == nil || e.Causes[0].Since.Sub(x.since).Abs() > time.Second || !strings.Contains(e.Causes[0].What, x.says) {
			t.Errorf("%s: %+v", name, e.Causes)
		}
	}
}

// The time of an earlier failure was given as that of the present one.
func TestCauseIsNotSinceAnEarlierOne(t *testing.T) {
	now := time.Now()
	old, waits := now.Add(-time.Hour), now.Add(-3*time.Second)
	topic := api.Topic{Name: "t", Partitions: []api.Partition{{Leader: "n1"}}}
	paused := func(c *api.Channel) { c.Paused = true }
	offline := func(t *api.Topic) { t.Partitions[0].Leader = "" }
	for name, x := range map[string]struct {
		change func(*api.Channel)
		topic  func(*api.Topic)
		events []*meta.Event // from an hour ago
		since  time.Time     // zero: not known
	}{
		"the channel was resumed": {change: paused, events: []*meta.Event{{Kind: "channel_paused", Object: "t/c"}, {Kind: "channel_resumed", Object: "t/c"}}},
		"another channel was resumed": {
			change: paused, events: []*meta.Event{{Kind: "channel_paused", Object: "t/c"}, {Kind: "channel_resumed", Object: "t/d"}}, since: old,
		},
		"the topic was resumed": {
			topic: func(t *api.Topic) { t.Paused, t.Depth = true, 3 }, events: []*meta.Event{{Kind: "topic_paused", Object: "t"}, {Kind: "topic_resumed", Object: "t"}},
		},
		"the node was up": {
			change: func(c *api.Channel) { c.MissingNodes = []string{"n1"} }, events: []*meta.Event{{Kind: "node_down", Object: "n1"}, {Kind: "node_up", Object: "n1"}},
		},
		"the node started": {
			change: func(c *api.Channel) { c.MissingNodes = []string{"n1"} }, events: []*meta.Event{{Kind: "node_down", Object: "n1"}, {Kind: "node_started", Object: "n1"}},
		},
		"an operator drains a node that is down": {
			change: func(c *api.Channel) { c.MissingNodes = []string{"n1"} }, events: []*meta.Event{{Kind: "node_down", Object: "n1"}, {Kind: "node_decommission", Object: "n1"}}, since: old,
		},
		"the partition had a leader": {
			topic: offline, events: []*meta.Event{{Kind: "partition_offline", Object: "t/0"}, {Kind: "leader_elected", Object: "t/0"}}, since: waits,
		},
		"the partition may have had a leader": {
			topic: offline, events: []*meta.Event{{Kind: "partition_offline", Object: "t/0"}, {Kind: "leader_elected", Object: "a/0 a/1 a/2 and 3 more"}}, since: waits,
		},
		"the partition is not named": {
			topic: offline, events: []*meta.Event{{Kind: "partition_offline", Object: "a/0 a/1 a/2 and 3 more"}}, since: waits,
		},
		"nothing is known of the partition": {topic: offline, since: waits},
	} {
		c, topic := busyChannel(), topic
		topic.Partitions = slices.Clone(topic.Partitions)
		if x.change != nil {
			x.change(&c)
		}
		if x.topic != nil {
			x.topic(&topic)
		}
		before := c
		for _, e := range x.events {
			e.At = old.UnixNano()
		}
		var got time.Time
		if e := explained(&topic, observation{before: &before, now: &c, watched: time.Second}, x.events); len(e.Causes) == 0 {
			t.Errorf("%s: no cause", name)
		} else if e.Causes[0].Since != nil {
			got = *e.Causes[0].Since
		}
		if got.Sub(x.since).Abs() > time.Second {
			t.Errorf("%s: since %v, want %v", name, got, x.since)
		}
	}
}
