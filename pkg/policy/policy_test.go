package policy

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestNearestConfiguredLevelCounts(t *testing.T) {
	cluster := Policy{MaxAttempts: 9, OnExhausted: Drop, Backoff: Backoff{time.Second, time.Minute}, Rate: 7}
	for _, test := range []struct {
		name           string
		channel, topic Policy
		want           Policy
	}{
		{"cluster only", Policy{}, Policy{}, Policy{9, Drop, Drop, "", cluster.Backoff, 7}},
		{"topic", Policy{}, Policy{MaxAttempts: 3, DeadLetterTopic: "d"}, Policy{3, Drop, Drop, "d", cluster.Backoff, 7}},
		{"channel before topic", Policy{MaxAttempts: 2, OnExhausted: Block, OnExpired: DeadLetter}, Policy{MaxAttempts: 3, Rate: 1}, Policy{2, Block, DeadLetter, "", cluster.Backoff, 1}},
		{"none is a choice", Policy{MaxAttempts: Unlimited, Backoff: Off(), Rate: Unlimited}, Policy{}, Policy{OnExhausted: Drop, OnExpired: Drop}},
	} {
		if got := Effective(test.channel, test.topic, cluster); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
	if got := Effective(); got != (Policy{OnExhausted: DeadLetter, OnExpired: Drop}) || got.Exhausts(maxAttemptsLimit) {
		t.Errorf("without any choice: %+v", got)
	}
}

func TestMessageIsExhaustedAfterItsLastAttempt(t *testing.T) {
	p := Policy{MaxAttempts: 3}
	if p.Exhausts(2) || !p.Exhausts(3) || !p.Exhausts(4) {
		t.Errorf("%v %v %v", p.Exhausts(2), p.Exhausts(3), p.Exhausts(4))
	}
}

func TestBackoffDoublesBetweenItsBounds(t *testing.T) {
	b := Backoff{time.Second, 10 * time.Second}
	for attempts, full := range map[uint16]time.Duration{
		1: 2 * time.Second, 2: 4 * time.Second, 3: 8 * time.Second, 4: 10 * time.Second, 100: 10 * time.Second, maxAttemptsLimit: 10 * time.Second,
	} {
		least := max(b.Min, full/2)
		different := map[time.Duration]bool{}
		for seed := range uint64(1000) {
			d := b.Delay(attempts, seed)
			if d < least || d > full {
				t.Fatalf("attempt %d: %v, want %v to %v", attempts, d, least, full)
			}
			different[d] = true
			if b.Delay(attempts, seed) != d {
				t.Fatal("the same question has another answer")
			}
		}
		if len(different) < 900 {
			t.Errorf("attempt %d: %d delays of 1000 messages: they come back together", attempts, len(different))
		}
	}
	if d := Off().Delay(3, 1) + (Backoff{}).Delay(3, 1); d != 0 {
		t.Errorf("off: %v", d)
	}
	if d := (Backoff{time.Second, time.Second}).Delay(9, 4); d != time.Second {
		t.Errorf("constant: %v", d)
	}
	if d := (Backoff{maxBackoff, maxBackoff}).Delay(60, 4); d != maxBackoff {
		t.Errorf("longest: %v", d)
	}
}

func TestPoliciesRoundTrip(t *testing.T) {
	for text, want := range map[string]Backoff{
		"1s..10m": {time.Second, 10 * time.Minute}, "5s": {5 * time.Second, 5 * time.Second}, "off": Off(), "none": Off(), "25ms..24h": {MinBackoff, maxBackoff},
	} {
		got, err := ParseBackoff(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if again, err := ParseBackoff(got.String()); err != nil || again != got {
			t.Errorf("%q is written %q, and read as %v, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "0", "10m..1s", "1s..", "..1s", "-1s..2s", "24ms", "1s..25h", "1s...2s", "x"} {
		if got, err := ParseBackoff(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("backoff %q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]int{"100/s": 100, "1": 1, "0": Unlimited, "none": Unlimited, "10000000": maxRate} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("rate %q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "10000001", "1/m", "default"} {
		if got, err := ParseRate(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("rate %q: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]int{"1": 1, "4000": 4000, "0": Unlimited, "none": Unlimited} {
		if got, err := ParseMaxAttempts(text); err != nil || got != want {
			t.Errorf("max attempts %q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "4001", "many"} {
		if got, err := ParseMaxAttempts(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("max attempts %q: %d, %v", text, got, err)
		}
	}
}

func TestPolicyJSONRoundTrip(t *testing.T) {
	for _, p := range []Policy{
		{},
		{MaxAttempts: 5, OnExhausted: Block, DeadLetterTopic: "d", Backoff: Backoff{time.Second, time.Minute}, Rate: 9},
		{MaxAttempts: Unlimited, Backoff: Off(), Rate: Unlimited},
	} {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var got Policy
		if err := json.Unmarshal(text, &got); err != nil || got != p {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []Policy{
		{MaxAttempts: -2}, {MaxAttempts: 4001}, {Rate: -2}, {Rate: maxRate + 1}, {OnExhausted: "x"}, {Backoff: Backoff{time.Second, 0}}, {Backoff: Backoff{1, time.Second}},
	} {
		if err := p.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestDeadLettersHaveATopicOfTheirOwn(t *testing.T) {
	for _, test := range []struct{ topic, channel, chosen, want string }{
		{"orders", "bill", "", "orders.bill.dlq"},
		{"orders", "bill#ephemeral", "", "orders.bill.dlq"},
		{"orders#ephemeral", "bill", "", "orders.bill.dlq"},
		{"orders", "bill", "failed", "failed"},
	} {
		if got := (Policy{DeadLetterTopic: test.chosen}).DeadLetters(test.topic, test.channel); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestPatchChangesOnlyNamedFields(t *testing.T) {
	was := Policy{MaxAttempts: 5, OnExhausted: Drop, DeadLetterTopic: "d", Backoff: Off(), Rate: 3}
	if got := (Patch{}).Apply(was); got != was {
		t.Errorf("an empty one: %+v", got)
	}
	open := Patch{new(int), new(Outcome), new(Outcome), new(string), new(Backoff), new(int)}
	if got := open.Apply(was); got != (Policy{}) {
		t.Errorf("one that leaves all open: %+v", got)
	}
}

func TestBucketKeepsItsRate(t *testing.T) {
	now := time.Unix(1000, 0)
	var b bucket
	if got := b.Reserve(1000, now); got != 1000 {
		t.Errorf("without a rate: %d", got)
	}
	b.SetRate(100, now)
	if got := b.Reserve(1000, now); got != 10 {
		t.Errorf("at first: %d, want the burst of 10", got)
	}
	total := 0
	for range 1000 { // 10 s
		now = now.Add(10 * time.Millisecond)
		total += b.Reserve(1000, now)
	}
	if total < 999 || total > 1000 {
		t.Errorf("%d in 10 s, want 1000", total)
	}
	now = now.Add(time.Hour)
	if got := b.Reserve(1000, now); got != 10 {
		t.Errorf("after a rest: %d, want the burst", got)
	}
	b.Return(4)
	if got := b.Reserve(1000, now); got != 4 {
		t.Errorf("of what came back: %d, want 4", got)
	}
	b.SetRate(1, now)
	if got := b.Reserve(5, now.Add(time.Second)); got != 1 {
		t.Errorf("slower: %d, want 1", got)
	}
	if got := b.Reserve(5, now.Add(500*time.Millisecond)); got != 0 {
		t.Errorf("a moment earlier: %d, want 0", got)
	}
	b.SetRate(0, now)
	if got := b.Reserve(1000, now); got != 1000 {
		t.Errorf("without a rate again: %d", got)
	}
}

// TestThrottledTimeIsConsumersWait: the time counts while a bucket is empty and a
// consumer wants more, and not while there are no messages or no consumers.
func TestThrottledTimeIsConsumersWait(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var l Limit
	l.SetRate(10, start)
	if got := l.Reserve(5, start); got != 1 { // the burst
		t.Fatal(got)
	}
	for d := 10 * time.Millisecond; d <= time.Second; d += 10 * time.Millisecond {
		l.Reserve(5, at(d))
	}
	if got := l.Throttled(); got < 900*time.Millisecond || got > time.Second {
		t.Errorf("of a second with more messages than the rate: %v", got)
	}
	before := l.Throttled()
	l.Reserve(5, at(time.Hour)) // no consumer for an hour
	if got := l.Throttled() - before; got > 100*time.Millisecond {
		t.Errorf("of an hour without a consumer: %v", got)
	}
	before = l.Throttled()
	for d := time.Hour; d < time.Hour+10*time.Second; d += time.Second { // a channel that is empty
		l.Return(l.Reserve(5, at(d)))
	}
	if got := l.Throttled() - before; got > 100*time.Millisecond {
		t.Errorf("without messages: %v", got)
	}
}

func TestRatesReportThrottling(t *testing.T) {
	now := time.Unix(1000, 0)
	var r Rates
	l := r.Of("c", 0, 1, now)
	l.Reserve(9, now)
	l.Reserve(9, now.Add(time.Second))
	if got := r.Throttled("c"); got != time.Second || r.Throttled("none") != 0 {
		t.Errorf("%v", got)
	}
}

// TestRateOfChannelThatExistsAgainStays: a consumer may create the channel again before its last one has deleted it
// on all partitions.
func TestRateOfChannelThatExistsAgainStays(t *testing.T) {
	var r Rates
	now := time.Unix(1000, 0)
	was := r.Of("c", 0, 5, now)
	if r.Forget("c", func() bool { return true }); r.Of("c", 0, 5, now) != was {
		t.Error("two partitions of one channel have two limits")
	}
	if r.Forget("c", func() bool { return false }); r.Of("c", 0, 5, now) == was {
		t.Error("the limit of a deleted channel stays")
	}
}

// A node may learn of the deletion of a channel and of its next creation at once, and never find it missing.
func TestRateOfNextVersionOfChannelIsItsOwn(t *testing.T) {
	var r Rates
	now := time.Unix(1000, 0)
	was := r.Of("c", 7, 1, now)
	was.Reserve(1, now)
	is := r.Of("c", 9, 1, now)
	if is == was || is.Reserve(1, now) != 1 || r.Throttled("c") != 0 {
		t.Error("a channel begins with the limit of a deleted one")
	}
	if r.Of("c", 9, 1, now) != is || r.Of("c", 7, 1, now) != is {
		t.Error("two partitions of one channel have two limits")
	}
}

// TestPartitionsShareLimitOfChannelThatHadNone has one partition learn of the end of a rate after another has learned of
// the next rate.
func TestPartitionsShareLimitOfChannelThatHadNone(t *testing.T) {
	var r Rates
	now := time.Unix(1000, 0)
	first := r.Of("c", 7, 10, now)
	if none := r.Of("c", 7, 0, now); none != nil {
		t.Error("a channel without a rate has a limit")
	}
	if r.Of("c", 7, 10, now) != first {
		t.Error("two partitions of one channel have two limits")
	}
}
