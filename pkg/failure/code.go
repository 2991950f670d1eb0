package failure

import "net/http"

// Code is what sort of failure it is, for programs: the code of an answer of /v1, and of
// brokerctl with -o json.
type Code string

// The codes of /v1.
const (
	Invalid         Code = "invalid"             // the request is not well formed, or a value is out of range
	NotFound        Code = "not_found"           // there is no such topic, channel, partition or path
	Method          Code = "method_not_allowed"  // the path does not know the method
	Exists          Code = "exists"              // it exists with another configuration
	Precondition    Code = "precondition_failed" // the state forbids it now
	TooLarge        Code = "too_large"           // a message or a request is over its limit
	Unauthenticated Code = "unauthenticated"     // no credentials, or wrong ones
	Forbidden       Code = "forbidden"           // not allowed to this caller
	Throttled       Code = "throttled"           // too many wrong credentials from this address
	Busy            Code = "busy"                // too much is waiting
	NotWritable     Code = "not_writable"        // the partition accepts no messages now
	Full            Code = "topic_full"          // the topic holds as many bytes as it may
	Exiting         Code = "exiting"             // the node is shutting down
	Starting        Code = "starting"            // the node does not serve yet
	Unavailable     Code = "unavailable"         // no node could answer
	Uncertain       Code = "uncertain"           // it may have happened, now or later
	Corrupt         Code = "corrupt"             // stored data is damaged
	Internal        Code = "internal"            // a defect of the broker
)

// The codes of failures that arise in brokerctl and not in a broker.
const (
	Usage       Code = "usage"
	Failed      Code = "failed"
	Partial     Code = "partial" // some of many failed
	Interrupted Code = "interrupted"
)

// The exit codes of brokerctl that a Code has.
const (
	ExitFailed      = 1   // no other code fits
	ExitUsage       = 2   // the command line is wrong, or names a value that the broker refuses
	ExitNotFound    = 3   // what is named does not exist
	ExitRefused     = 4   // the state forbids it, and nothing was changed
	ExitForbidden   = 5   // no credentials, wrong ones, or not allowed
	ExitUnavailable = 6   // no node answered in time, or the outcome is not known
	ExitPartial     = 7   // some of many failed
	ExitInterrupted = 130 // a change was interrupted, and may have been carried out
)

// codes is the row of each code: its HTTP status, 0 where no broker answers it; its exit code; and
// whether the same request may succeed later, or at another node.
var codes = map[Code]struct {
	status    int
	exit      int
	retryable bool
}{
	Invalid:         {http.StatusBadRequest, ExitUsage, false},
	NotFound:        {http.StatusNotFound, ExitNotFound, false},
	Method:          {http.StatusMethodNotAllowed, ExitFailed, false},
	Exists:          {http.StatusConflict, ExitRefused, false},
	Precondition:    {http.StatusConflict, ExitRefused, false},
	TooLarge:        {http.StatusRequestEntityTooLarge, ExitRefused, false},
	Unauthenticated: {http.StatusUnauthorized, ExitForbidden, false},
	Forbidden:       {http.StatusForbidden, ExitForbidden, false},
	Throttled:       {http.StatusTooManyRequests, ExitForbidden, true},
	Busy:            {http.StatusServiceUnavailable, ExitUnavailable, true},
	NotWritable:     {http.StatusServiceUnavailable, ExitRefused, true},
	Full:            {http.StatusInsufficientStorage, ExitRefused, false},
	Exiting:         {http.StatusServiceUnavailable, ExitUnavailable, true},
	Starting:        {http.StatusServiceUnavailable, ExitUnavailable, true},
	Unavailable:     {http.StatusServiceUnavailable, ExitUnavailable, true},
	Uncertain:       {http.StatusInternalServerError, ExitUnavailable, true},
	Corrupt:         {http.StatusInternalServerError, ExitFailed, false},
	Internal:        {http.StatusInternalServerError, ExitFailed, false},

	Usage:       {0, ExitUsage, false},
	Failed:      {0, ExitFailed, false},
	Partial:     {0, ExitPartial, false},
	Interrupted: {0, ExitInterrupted, false},
}

// Status returns the HTTP status that goes with the code.
func (c Code) Status() int {
	if row, known := codes[c]; known && row.status != 0 {
		return row.status
	}
	return http.StatusInternalServerError
}

// Exit returns the exit code of brokerctl that goes with the code.
func (c Code) Exit() int {
	if row, known := codes[c]; known {
		return row.exit
	}
	return ExitFailed
}

// Retryable reports whether the same request may succeed later, or at another node. After Uncertain it
// may have been carried out already.
func (c Code) Retryable() bool { return codes[c].retryable }
