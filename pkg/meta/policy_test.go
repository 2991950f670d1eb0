package meta

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
)

// policed returns a state with a topic and a channel of it.
func policed(t *testing.T, topic, channel string) *State {
	t.Helper()
	s := &State{}
	for i, c := range []Command{
		NodeStarted{Node: Node{ID: "n1", TCPAddress: "a:1", HTTPAddress: "a:2", ClusterAddress: "a:3"}},
		CreateTopic{Name: topic, Config: TopicConfig{}.WithDefaults(1, false), Assignment: [][]NodeID{{"n1"}}},
		CreateChannel{Topic: topic, Channel: channel},
	} {
		if err := s.Apply(uint64(i+1), c).Err; err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestChannelsPolicyIsAltered(t *testing.T) {
	s := policed(t, "orders", "bill")
	backoff := policy.Backoff{Min: time.Second, Max: time.Minute}
	patch := AlterChannel{Topic: "orders", Channel: "bill", Policy: &policy.Patch{MaxAttempts: new(5), Backoff: &backoff}}
	if err := s.Apply(9, patch).Err; err != nil {
		t.Fatal(err)
	}
	of := func() policy.Policy {
		return PolicyOf(s.Topic("orders"), "bill", s.Settings().ChannelDefaults())
	}
	if got := of(); got != (policy.Policy{MaxAttempts: 5, OnExhausted: policy.DeadLetter, OnExpired: policy.Drop, Backoff: backoff}) {
		t.Errorf("altered: %+v", got)
	}
	if err := s.Apply(10, AlterChannel{Topic: "orders", Channel: "bill", Policy: &policy.Patch{MaxAttempts: new(0)}}).Err; err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(11, SetSettings{Values: map[string]string{SettingChannelMaxAttempts: "8", settingChannelOnExhausted: "drop", settingChannelRate: "9/s"}}).Err; err != nil {
		t.Fatal(err)
	}
	if got := of(); got != (policy.Policy{MaxAttempts: 8, OnExhausted: policy.Drop, OnExpired: policy.Drop, Backoff: backoff, Rate: 9}) {
		t.Errorf("left to the cluster: %+v", got)
	}
	if err := s.Apply(12, AlterTopic{Name: "orders", Will: TopicConfig{Channels: policy.Policy{MaxAttempts: 3}}}).Err; err != nil {
		t.Fatal(err)
	}
	if got := of(); got.MaxAttempts != 3 || got.Rate != 9 {
		t.Errorf("left to the topic: %+v", got)
	}
	if got := PolicyOf(s.Topic("orders"), "new#ephemeral", s.Settings().ChannelDefaults()); got.MaxAttempts != 3 || got.Rate != 9 {
		t.Errorf("of an ephemeral channel: %+v", got)
	}
}

func TestDeadLettersNeedADeadLetterTopic(t *testing.T) {
	long := strings.Repeat("c", 60)
	s := policed(t, "orders", long)
	attempts := &policy.Patch{MaxAttempts: new(5)}
	err := s.Apply(9, AlterChannel{Topic: "orders", Channel: long, Policy: attempts}).Err
	if !errors.Is(err, failure.InvalidConfig) || !strings.Contains(err.Error(), "choose another dead-letter topic") {
		t.Errorf("a default that is too long: %v", err)
	}
	if p := s.Topic("orders").Channels[long].Policy; p != (policy.Policy{}) {
		t.Errorf("a refused change has made it %+v", p)
	}
	if err := s.Apply(10, AlterTopic{Name: "orders", Will: TopicConfig{Channels: policy.Policy{MaxAttempts: 5}}}).Err; !errors.Is(err, failure.InvalidConfig) {
		t.Errorf("for all channels: %v", err)
	}
	index := uint64(20)
	for _, p := range []policy.Patch{
		{MaxAttempts: new(5), OnExhausted: new(policy.Drop)},
		{OnExhausted: new(policy.DeadLetter), DeadLetterTopic: new("failed")},
		{Rate: new(1)},
	} {
		index++
		if err := s.Apply(index, AlterChannel{Topic: "orders", Channel: long, Policy: &p}).Err; err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, to := range []string{"orders", "a b", "x#ephemeral", strings.Repeat("x", 65)} {
		c := AlterChannel{Topic: "orders", Channel: long, Policy: &policy.Patch{DeadLetterTopic: &to}}
		err := c.validate()
		if err == nil {
			index++
			err = s.Apply(index, c).Err
		}
		if err == nil {
			t.Errorf("dead letters go to %q", to)
		}
	}
	if err := s.Apply(99, CreateChannel{Topic: "orders", Channel: long + "2"}).Err; err != nil {
		t.Errorf("a channel that inherits: %v", err)
	}
	own := policy.Policy{DeadLetterTopic: "t"}
	if err := (CreateTopic{Name: "t", Config: TopicConfig{Channels: own}.WithDefaults(1, false)}).validate(); !errors.Is(err, failure.InvalidConfig) {
		t.Errorf("a topic with its own dead letters: %v", err)
	}
}

// A default name is valid, and two channels have different ones.
func TestInheritedDeadLetterTopicsHaveNamesThatFit(t *testing.T) {
	a := DeadLetterTopic(policy.Policy{}, strings.Repeat("t", 64), strings.Repeat("c", 64))
	b := DeadLetterTopic(policy.Policy{}, strings.Repeat("t", 64), strings.Repeat("c", 63)+"d")
	for _, name := range []string{a, b} {
		if !ValidTopicName(name) || !strings.HasSuffix(name, policy.DeadLetterSuffix) {
			t.Errorf("%s of %d bytes", name, len(name))
		}
	}
	if a == b {
		t.Errorf("two channels share %s", a)
	}
}

// By default, channels of a dead-letter topic have no dead-letter topic.
func TestDeadLetterTopicsTakeNoDefaults(t *testing.T) {
	s := policed(t, "orders.bill.dlq", "redrive")
	if got := PolicyOf(s.Topic("orders.bill.dlq"), "redrive", policy.Policy{MaxAttempts: 2}); got.MaxAttempts != 0 {
		t.Errorf("%+v", got)
	}
}

func TestSnapshotContainsPolicies(t *testing.T) {
	s := policed(t, "orders", "bill")
	chosen := policy.Policy{MaxAttempts: 3, Backoff: policy.Off(), DeadLetterTopic: "failed"}
	for i, c := range []Command{
		AlterTopic{Name: "orders", Will: TopicConfig{Channels: chosen}},
		CreateChannel{Topic: "orders", Channel: "mail", Policy: policy.Policy{Rate: 7, OnExhausted: policy.Block}},
	} {
		data, err := EncodeCommandAt(c, 0)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeCommand(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(uint64(9+i), again).Err; err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := s.Encode(&out); err != nil {
		t.Fatal(err)
	}
	back, err := DecodeSnapshot(strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	topic := back.Topic("orders")
	if topic.Config.Channels != chosen || topic.Channels["mail"].Policy.Rate != 7 || topic.Channels["mail"].Policy.OnExhausted != policy.Block {
		t.Errorf("%+v, %+v", topic.Config.Channels, topic.Channels["mail"])
	}
}
