package failure

import (
	"fmt"
	"strings"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Wire is an error code of the NSQ protocol.
type Wire uint8

// The error codes. Clients key on the first word of an error frame only.
const (
	NoWire Wire = iota // of a Kind that has none of its own
	BadProtocol
	BadCommand
	BadBody
	BadMessage
	BadTopic
	BadChannel
	BadPartition
	IdentifyFailed
	AuthFirst
	AuthFailed
	AuthDisabled
	AuthError
	Unauthorized
	SubFailed
	PubFailed
	MPubFailed
	DPubFailed
	// FailedOnNotLeader and FailedOnNotWritable are for clients that asked for extensions: a
	// publish was refused. They are sent without text.
	FailedOnNotLeader
	FailedOnNotWritable
	// TopicNotExist to TopicNotCreated are for the commands of the extensions alone.
	TopicNotExist
	ExtNotSupported
	InvalidJSONHeader
	InvalidTraceID
	SubExtendNeeded
	SubExtendForbidden
	BadExt
	TopicNotCreated
	FinFailed
	ReqFailed
	TouchFailed
	// WireCount is the number of codes, NoWire included, for tables that count by code.
	WireCount
)

// wires says how each code is spelled, which code of /v1 means the same, and whether the connection
// continues. A publish that could not be stored is a failure of the cluster and not of the
// connection, so it does not end it.
var wires = [WireCount]struct {
	name   string
	code   Code
	goesOn bool
}{
	BadProtocol:         {"E_BAD_PROTOCOL", Internal, false},
	BadCommand:          {"E_INVALID", Invalid, false},
	BadBody:             {"E_BAD_BODY", TooLarge, false},
	BadMessage:          {"E_BAD_MESSAGE", TooLarge, false},
	BadTopic:            {"E_BAD_TOPIC", Invalid, false},
	BadChannel:          {"E_BAD_CHANNEL", Invalid, false},
	BadPartition:        {"E_BAD_PARTITION", Invalid, false},
	IdentifyFailed:      {"E_IDENTIFY_FAILED", Precondition, false},
	AuthFirst:           {"E_AUTH_FIRST", Unauthenticated, false},
	AuthFailed:          {"E_AUTH_FAILED", Unauthenticated, false},
	AuthDisabled:        {"E_AUTH_DISABLED", Unauthenticated, false},
	AuthError:           {"E_AUTH_ERROR", Unavailable, false},
	Unauthorized:        {"E_UNAUTHORIZED", Forbidden, false},
	SubFailed:           {"E_SUB_FAILED", Precondition, false},
	PubFailed:           {"E_PUB_FAILED", Uncertain, true},
	MPubFailed:          {"E_MPUB_FAILED", Uncertain, true},
	DPubFailed:          {"E_DPUB_FAILED", Uncertain, true},
	FailedOnNotLeader:   {"E_FAILED_ON_NOT_LEADER", NotWritable, true},
	FailedOnNotWritable: {"E_FAILED_ON_NOT_WRITABLE", NotWritable, true},
	TopicNotExist:       {"E_TOPIC_NOT_EXIST", NotFound, false},
	ExtNotSupported:     {"E_EXT_NOT_SUPPORT", Precondition, true},
	InvalidJSONHeader:   {"E_INVALID_JSON_HEADER", Invalid, true},
	InvalidTraceID:      {"INVALID_TRACE_ID", Invalid, true},
	SubExtendNeeded:     {"E_SUB_EXTEND_NEED", Precondition, false},
	SubExtendForbidden:  {"E_SUB_EXTEND_FORBIDDON", Precondition, false}, // as its clients spell it
	BadExt:              {"E_BAD_EXT", Invalid, false},
	TopicNotCreated:     {"E_CREATE_TOPIC_FAILED", Precondition, true},
	FinFailed:           {"E_FIN_FAILED", Precondition, true},
	ReqFailed:           {"E_REQ_FAILED", Precondition, true},
	TouchFailed:         {"E_TOUCH_FAILED", Precondition, true},
}

// String returns the code as it goes over the wire.
func (w Wire) String() string {
	if w > NoWire && w < WireCount {
		return wires[w].name
	}
	return fmt.Sprintf("Wire(%d)", uint8(w))
}

// Fatal reports whether the connection ends after an error frame of the code.
func (w Wire) Fatal() bool { return w >= WireCount || !wires[w].goesOn }

// Publish reports whether the code answers publishes that are refused or whose outcome is unknown:
// the text says which.
func (w Wire) Publish() bool { return w == PubFailed || w == MPubFailed || w == DPubFailed }

// OfMessage reports whether the code answers FIN, REQ or TOUCH, which have no other answer.
func (w Wire) OfMessage() bool { return w == FinFailed || w == ReqFailed || w == TouchFailed }

// WireNamed returns the code that is spelled so, or NoWire.
func WireNamed(name string) Wire {
	for w := NoWire + 1; w < WireCount; w++ {
		if wires[w].name == name {
			return w
		}
	}
	return NoWire
}

// What the text of a failed publish says about the messages, after the verb.
const (
	said        = " failed"
	saidRefused = said + ", refused: "
	saidUnknown = said + ", outcome unknown: "
)

// PublishText returns the text of an error frame of a code for which Publish is true.
func PublishText(verb string, err error) string {
	if fate.Of(err) == fate.Refused {
		return verb + saidRefused + err.Error()
	}
	return verb + saidUnknown + err.Error()
}

// Read returns what an error frame means to the client that gets it: the code of /v1 that means
// the same, and the fate of the data. A code that the registry does not know is Failed, and
// refused.
func Read(code, text string) (Code, fate.Fate) {
	w := WireNamed(code)
	switch {
	case w == NoWire:
		return Failed, fate.Refused
	case !w.Publish():
		return wires[w].code, fate.Refused
	case strings.Contains(text, saidRefused):
		return NotWritable, fate.Refused
	}
	return Uncertain, fate.Uncertain
}
