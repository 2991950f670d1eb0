package server

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// audience is which codes a client understands.
type audience uint8

// The audiences.
const (
	standard audience = iota
	naming            // it names partitions, as only clients of the extensions do
	extended          // it declared that it knows the extensions, or uses one of their commands
)

// audienceOf returns the audience of a client from what is known about it.
func audienceOf(knows, names bool) audience {
	switch {
	case knows:
		return extended
	case names:
		return naming
	}
	return standard
}

// publishError returns the error that a client gets for a failed publish. Only the error's fate
// determines whether the messages may be stored.
func publishError(verb nsq.Verb, topic string, err error, reader audience) *nsq.Error {
	if fate.Of(err) == fate.Refused {
		if code := reader.extended(err); code != failure.NoWire {
			return &nsq.Error{Code: code}
		}
	}
	if k := failure.Wiring(err); k != nil {
		return nsq.Errorf(k.Wire, k.Said, verb, topic)
	}
	code := failure.PubFailed
	switch verb {
	case nsq.MPub, nsq.MPubTrace, nsq.MPubExt:
		code = failure.MPubFailed
	case nsq.DPub:
		code = failure.DPubFailed
	default:
	}
	return &nsq.Error{Code: code, Text: failure.PublishText(verb.String(), err)}
}

// extended returns the code of an error for clients that know the extensions, or NoWire.
func (reader audience) extended(err error) failure.Wire {
	switch {
	case reader == standard:
		return failure.NoWire
	case reader == extended && errors.Is(err, failure.PartitionNotFound):
		return failure.TopicNotExist
	}
	return failure.Extending(err)
}

// subscribeError returns the error that a client gets for a failed SUB.
func subscribeError(topic, channel string, err error, reader audience) *nsq.Error {
	if code := reader.extended(err); code != failure.NoWire {
		return &nsq.Error{Code: code, Ends: true}
	}
	k := failure.Wiring(err)
	switch {
	case k == nil:
		return nsq.Errorf(failure.SubFailed, "SUB failed %v", err)
	case k.Wire == failure.BadChannel:
		return nsq.Errorf(k.Wire, k.Said, nsq.Sub, channel)
	}
	return nsq.Errorf(k.Wire, k.Said, nsq.Sub, topic)
}

// errNotInFlight is the error for an id that this broker cannot have sent.
var errNotInFlight = fate.Refuse("ID not in flight")
