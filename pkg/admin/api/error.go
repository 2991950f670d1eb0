package api

import (
	"fmt"
	"net/http"
)

// Code is the kind of a failure, for programs.
type Code string

// The codes. Each has one HTTP status: see Status.
const (
	// CodeInvalid: the request is not well formed, or a value is out of range.
	CodeInvalid Code = "invalid"
	// CodeNotFound: there is no such topic, channel, partition or path.
	CodeNotFound Code = "not_found"
	// CodeMethod: the path does not know the method.
	CodeMethod Code = "method_not_allowed"
	// CodeExists: it exists, and not as asked for.
	CodeExists Code = "exists"
	// CodePrecondition: the state forbids it now.
	CodePrecondition Code = "precondition_failed"
	// CodeTooLarge: a message or a request is over its limit.
	CodeTooLarge Code = "too_large"
	// CodeUnauthenticated: no credentials, or wrong ones.
	CodeUnauthenticated Code = "unauthenticated"
	// CodeForbidden: not allowed to this caller.
	CodeForbidden Code = "forbidden"
	// CodeBusy: too much is waiting; try again.
	CodeBusy Code = "busy"
	// CodeNotWritable: the partition takes no messages now: no leader, too few
	// replicas in sync, or a full disk. The message says which.
	CodeNotWritable Code = "not_writable"
	// CodeTopicFull: the topic holds as many bytes as it may.
	CodeTopicFull Code = "topic_full"
	// CodeExiting: the node is shutting down; ask another.
	CodeExiting Code = "exiting"
	// CodeStarting: the node does not serve yet; ask another, or again.
	CodeStarting Code = "starting"
	// CodeUnavailable: no node could answer.
	CodeUnavailable Code = "unavailable"
	// CodeUncertain: it may have happened, now or later.
	CodeUncertain Code = "uncertain"
	// CodeCorrupt: stored data is damaged.
	CodeCorrupt Code = "corrupt"
	// CodeInternal: a defect of the broker.
	CodeInternal Code = "internal"
)

// Status returns the HTTP status that goes with the code.
func (c Code) Status() int {
	switch c {
	case CodeInvalid:
		return http.StatusBadRequest
	case CodeNotFound:
		return http.StatusNotFound
	case CodeMethod:
		return http.StatusMethodNotAllowed
	case CodeExists, CodePrecondition:
		return http.StatusConflict
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeUnauthenticated:
		return http.StatusUnauthorized
	case CodeForbidden:
		return http.StatusForbidden
	case CodeBusy, CodeNotWritable, CodeExiting, CodeStarting, CodeUnavailable:
		return http.StatusServiceUnavailable
	case CodeTopicFull:
		return http.StatusInsufficientStorage
	case CodeUncertain, CodeCorrupt, CodeInternal:
	}
	return http.StatusInternalServerError
}

// Error is a failure as /v1 answers it and as the Client returns it.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`        // what went wrong, a sentence without full stop
	Hint    string `json:"hint,omitempty"` // what to do about it
	Fate    string `json:"fate,omitempty"` // what became of the data: refused, uncertain or corrupt
	cause   error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns what made the client fail, nil for an answer of the broker.
func (e *Error) Unwrap() error { return e.cause }

// Errorf returns an Error of a code with a formatted message. %w works.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: err}
}

// ErrorAnswer is the body of every answer that is not a success.
type ErrorAnswer struct {
	Error *Error `json:"error"`
}
