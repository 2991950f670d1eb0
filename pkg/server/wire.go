package server

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// wireRule chooses the code for an error of the broker. The name in the text is
// that of the topic or of the channel.
type wireRule struct {
	cause error
	code  nsq.Code
	// text is formatted with the verb and the name.
	text string
}

// publishRules are the publishes that are wrong in themselves. Every other
// failure is the broker's: its code does not end the connection.
func publishRules() [3]wireRule {
	return [...]wireRule{
		{broker.ErrInvalidTopic, nsq.BadTopic, "%s topic name %q is not valid"},
		{broker.ErrMessageTooBig, nsq.BadMessage, "%s message too big for topic %q"},
		{broker.ErrPartitionNeeded, nsq.BadPartition, "%s to topic %q needs a partition or a key"},
	}
}

// publishError returns what the client is told of a publish that failed.
func publishError(verb nsq.Verb, topic string, err error) *nsq.Error {
	for _, rule := range publishRules() {
		if errors.Is(err, rule.cause) {
			return nsq.Errorf(rule.code, rule.text, verb, topic)
		}
	}
	code := nsq.PubFailed
	switch verb {
	case nsq.MPub:
		code = nsq.MPubFailed
	case nsq.DPub:
		code = nsq.DPubFailed
	default:
	}
	if fate.Of(err) == fate.Uncertain {
		return nsq.Errorf(code, "%s failed %v (outcome unknown)", verb, err)
	}
	return nsq.Errorf(code, "%s failed %v", verb, err)
}

// subscribeError returns what the client is told of a SUB that failed.
func subscribeError(topic, channel string, err error) *nsq.Error {
	switch {
	case errors.Is(err, broker.ErrInvalidTopic):
		return nsq.Errorf(nsq.BadTopic, "SUB topic name %q is not valid", topic)
	case errors.Is(err, broker.ErrInvalidChannel):
		return nsq.Errorf(nsq.BadChannel, "SUB channel name %q is not valid", channel)
	}
	return nsq.Errorf(nsq.SubFailed, "SUB failed %v", err)
}

// isNoPartition reports whether a partition that was asked for does not exist.
func isNoPartition(err error) bool { return errors.Is(err, broker.ErrPartitionNotFound) }

// errNotInFlight is said of an id that this broker cannot have given out.
var errNotInFlight = fate.Refuse("ID not in flight")
