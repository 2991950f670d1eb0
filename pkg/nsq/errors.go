package nsq

import "fmt"

// Code is an error code of the wire.
type Code uint8

// The error codes. Clients key on the first word of an error frame only.
const (
	BadProtocol Code = iota
	Invalid
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
	// FailedOnNotLeader and FailedOnNotWritable are for clients that asked for
	// extensions: a publish was refused. They stand alone.
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
	// CodeCount is the number of codes, for tables that count by code.
	CodeCount
)

// codes says how each code is spelled and whether the connection ends with it.
// A publish that could not be stored is the cluster's trouble and not the
// connection's, so it does not end it.
var codes = [CodeCount]struct {
	name  string
	fatal bool
}{
	BadProtocol:         {"E_BAD_PROTOCOL", true},
	Invalid:             {"E_INVALID", true},
	BadBody:             {"E_BAD_BODY", true},
	BadMessage:          {"E_BAD_MESSAGE", true},
	BadTopic:            {"E_BAD_TOPIC", true},
	BadChannel:          {"E_BAD_CHANNEL", true},
	BadPartition:        {"E_BAD_PARTITION", true},
	IdentifyFailed:      {"E_IDENTIFY_FAILED", true},
	AuthFirst:           {"E_AUTH_FIRST", true},
	AuthFailed:          {"E_AUTH_FAILED", true},
	AuthDisabled:        {"E_AUTH_DISABLED", true},
	AuthError:           {"E_AUTH_ERROR", true},
	Unauthorized:        {"E_UNAUTHORIZED", true},
	SubFailed:           {"E_SUB_FAILED", true},
	PubFailed:           {"E_PUB_FAILED", false},
	MPubFailed:          {"E_MPUB_FAILED", false},
	DPubFailed:          {"E_DPUB_FAILED", false},
	FailedOnNotLeader:   {"E_FAILED_ON_NOT_LEADER", false},
	FailedOnNotWritable: {"E_FAILED_ON_NOT_WRITABLE", false},
	TopicNotExist:       {"E_TOPIC_NOT_EXIST", true},
	ExtNotSupported:     {"E_EXT_NOT_SUPPORT", false},
	InvalidJSONHeader:   {"E_INVALID_JSON_HEADER", false},
	InvalidTraceID:      {"INVALID_TRACE_ID", false},
	SubExtendNeeded:     {"E_SUB_EXTEND_NEED", true},
	SubExtendForbidden:  {"E_SUB_EXTEND_FORBIDDON", true}, // as its clients spell it
	BadExt:              {"E_BAD_EXT", true},
	TopicNotCreated:     {"E_CREATE_TOPIC_FAILED", false},
	FinFailed:           {"E_FIN_FAILED", false},
	ReqFailed:           {"E_REQ_FAILED", false},
	TouchFailed:         {"E_TOUCH_FAILED", false},
}

// String returns the code as it goes over the wire.
func (c Code) String() string {
	if c < CodeCount {
		return codes[c].name
	}
	return fmt.Sprintf("Code(%d)", uint8(c))
}

// Fatal reports whether the connection ends after an error frame of the code.
func (c Code) Fatal() bool { return c >= CodeCount || codes[c].fatal }

// Error is what an error frame says.
type Error struct {
	Code Code
	Text string // "": the code stands alone
	Ends bool   // the connection ends, though it does not with every error of the code
}

// Errorf returns an Error of a formatted text.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Error returns the data of the error frame: the code, a space and the text.
func (e *Error) Error() string {
	if e.Text == "" && e.Code == BadProtocol {
		return e.Code.String()
	}
	return e.Code.String() + " " + e.Text
}

// Fatal reports whether the connection ends with the error.
func (e *Error) Fatal() bool { return e.Ends || e.Code.Fatal() }
