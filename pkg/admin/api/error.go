package api

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Code classifies a failure for programs.
type Code = failure.Code

// The codes.
const (
	CodeInvalid         = failure.Invalid
	CodeNotFound        = failure.NotFound
	CodeMethod          = failure.Method
	CodeExists          = failure.Exists
	CodePrecondition    = failure.Precondition
	CodeTooLarge        = failure.TooLarge
	CodeUnauthenticated = failure.Unauthenticated
	CodeForbidden       = failure.Forbidden
	CodeThrottled       = failure.Throttled
	CodeBusy            = failure.Busy
	CodeNotWritable     = failure.NotWritable
	CodeTopicFull       = failure.Full
	CodeExiting         = failure.Exiting
	CodeStarting        = failure.Starting
	CodeUnavailable     = failure.Unavailable
	CodeUncertain       = failure.Uncertain
	CodeCorrupt         = failure.Corrupt
	CodeInternal        = failure.Internal
)

// Error is a failure, as answered by /v1 and returned by the Client.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`        // what went wrong, a sentence without full stop
	Hint    string `json:"hint,omitempty"` // what to do about it
	Fate    string `json:"fate,omitempty"` // what became of the data: refused, uncertain or corrupt
	cause   error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the client-side cause; nil for an answer of the broker.
func (e *Error) Unwrap() error { return e.cause }

// Errorf returns an Error of a code with a formatted message. %w works.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: err}
}

// ErrorAnswer is the body of every unsuccessful answer.
type ErrorAnswer struct {
	Error *Error `json:"error"`
}
