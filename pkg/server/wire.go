package server

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// wireRule chooses the code for an error of the broker. The name in the text is
// that of the topic or of the channel.
type wireRule struct {
	cause error
	code  nsq.Code
	// text is formatted with the verb and the name.
	text string
}

// audience says which codes a client understands.
type audience uint8

// The audiences.
const (
	standard audience = iota
	naming            // it names partitions, as only clients of the extensions do
	extended          // it has said that it knows the extensions, or uses a command of theirs
)

// audienceOf returns that of a client of which all is known.
func audienceOf(knows, names bool) audience {
	switch {
	case knows:
		return extended
	case names:
		return naming
	}
	return standard
}

// publishRules are the publishes that are wrong in themselves. Every other
// failure is the broker's: its code does not end the connection.
func publishRules() [5]wireRule {
	return [...]wireRule{
		{directory.ErrInvalidTopic, nsq.BadTopic, "%s topic name %q is not valid"},
		{host.ErrMessageTooBig, nsq.BadMessage, "%s message too big for topic %q"},
		{coord.ErrTooBig, nsq.BadBody, "%s body too big for topic %q: publish fewer messages at a time"},
		{meta.ErrPartitionNotFound, nsq.BadPartition, "%s topic %q does not have the partition"},
		{publish.ErrPartitionNeeded, nsq.BadPartition, "%s to topic %q needs a partition or a key"},
	}
}

// extendedRules are the refusals that have a code of their own for clients which asked
// for extensions: they look for the partition's leader again. The code stands alone.
func extendedRules() [10]wireRule {
	return [...]wireRule{
		{cause: meta.ErrTopicNotFound, code: nsq.TopicNotExist},
		{cause: coord.ErrNotLeading, code: nsq.FailedOnNotLeader},
		{cause: coord.ErrMoving, code: nsq.FailedOnNotLeader},
		{cause: topic.ErrNotLeased, code: nsq.FailedOnNotLeader},
		{cause: coord.ErrNotWritable, code: nsq.FailedOnNotWritable},
		{cause: host.ErrDiskFull, code: nsq.FailedOnNotWritable},
		{cause: commitlog.ErrNoSpace, code: nsq.FailedOnNotWritable},
		{cause: commitlog.ErrNoFiles, code: nsq.FailedOnNotWritable},
		{cause: host.ErrNoLeader, code: nsq.FailedOnNotWritable},
		{cause: host.ErrExiting, code: nsq.FailedOnNotWritable},
	}
}

// publishError returns what the client is told of a publish that failed. Whether the
// messages may be stored is said by the error's fate, whatever else it is.
func publishError(verb nsq.Verb, topic string, err error, reader audience) *nsq.Error {
	if reader != standard && fate.Of(err) == fate.Refused {
		if code, ok := extendedCode(err); ok {
			return &nsq.Error{Code: code}
		}
	}
	if reader == extended && errors.Is(err, meta.ErrPartitionNotFound) {
		return &nsq.Error{Code: nsq.TopicNotExist}
	}
	for _, rule := range publishRules() {
		if errors.Is(err, rule.cause) {
			return nsq.Errorf(rule.code, rule.text, verb, topic)
		}
	}
	code := nsq.PubFailed
	switch verb {
	case nsq.MPub, nsq.MPubTrace, nsq.MPubExt:
		code = nsq.MPubFailed
	case nsq.DPub:
		code = nsq.DPubFailed
	default:
	}
	if fate.Of(err) != fate.Refused {
		return nsq.Errorf(code, "%s failed, outcome unknown: %v", verb, err)
	}
	return nsq.Errorf(code, "%s failed, refused: %v", verb, err)
}

// extendedCode returns the code that clients of the extensions know a refusal by.
func extendedCode(err error) (nsq.Code, bool) {
	for _, rule := range extendedRules() {
		if errors.Is(err, rule.cause) {
			return rule.code, true
		}
	}
	return 0, false
}

// subscribeError returns what the client is told of a SUB that failed.
func subscribeError(topic, channel string, err error, reader audience) *nsq.Error {
	if code, ok := extendedCode(err); ok && reader != standard {
		return &nsq.Error{Code: code, Ends: true}
	}
	switch {
	case errors.Is(err, meta.ErrPartitionNotFound) && reader == extended:
		return &nsq.Error{Code: nsq.TopicNotExist}
	case errors.Is(err, directory.ErrInvalidTopic):
		return nsq.Errorf(nsq.BadTopic, "SUB topic name %q is not valid", topic)
	case errors.Is(err, directory.ErrInvalidChannel):
		return nsq.Errorf(nsq.BadChannel, "SUB channel name %q is not valid", channel)
	case errors.Is(err, meta.ErrPartitionNotFound):
		return nsq.Errorf(nsq.BadPartition, "SUB topic %q does not have the partition", topic)
	}
	return nsq.Errorf(nsq.SubFailed, "SUB failed %v", err)
}

// errNotInFlight is said of an id that this broker cannot have given out.
var errNotInFlight = fate.Refuse("ID not in flight")
