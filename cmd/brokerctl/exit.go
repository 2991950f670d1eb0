package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/brokerd/brokerd/internal/nsqclient"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/client"
)

// The exit codes. docs/brokerctl.md promises them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitForbidden   = 5
	exitUnavailable = 6
	exitPartial     = 7
	exitUnhealthy   = 10
	exitDegraded    = 11
	exitInterrupted = 130
)

// The codes of failures that arise here and not in a broker.
const (
	codeUsage       api.Code = "usage"
	codeFailed      api.Code = "failed"
	codePartial     api.Code = "partial"
	codeInterrupted api.Code = "interrupted"
)

// failure is what the program ends with when it does not end well.
type failure struct {
	answer api.Error
	exit   int
	shown  bool // the answer has said it all: nothing is added on stderr
	cause  error
}

// Error returns the message.
func (f *failure) Error() string { return f.answer.Message }

// Unwrap returns what the failure came from, or nil.
func (f *failure) Unwrap() error { return f.cause }

// usageError returns a failure of the command line. %w works.
func usageError(text string, args ...any) *failure {
	err := fmt.Errorf(text, args...)
	return &failure{answer: api.Error{Code: codeUsage, Message: err.Error()}, exit: exitUsage, cause: err}
}

// verdict ends the program with an exit code, after the answer has said why.
func verdict(exit int) error { return &failure{exit: exit, shown: true} }

// named is an error about a topic, or about a channel of it.
type named struct {
	error
	topic, channel string
}

// Unwrap returns the error without the names.
func (n named) Unwrap() error { return n.error }

// about says what an error is about, so that the name can be said and a better
// one be proposed. A nil err stays nil.
func about(err error, topic, channel string) error {
	if err == nil {
		return nil
	}
	return named{err, topic, channel}
}

// diagnose says how the program ends with err, which is not nil.
func diagnose(ctx context.Context, g *globals, err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if isInterrupted(ctx) {
		return &failure{answer: api.Error{Code: codeInterrupted, Message: "interrupted", Hint: "the request may have been carried out"}, exit: exitInterrupted, cause: err}
	}
	f := &failure{answer: api.Error{Code: codeFailed, Message: err.Error()}, exit: exitFailed, cause: err}
	if e, ok := errors.AsType[*api.Error](err); ok {
		f.answer = api.Error{Code: e.Code, Message: err.Error(), Hint: e.Hint, Fate: e.Fate}
		f.exit = exitOf(e.Code)
	} else if e, ok := errors.AsType[*nsqclient.Error](err); ok {
		f.answer.Code, f.exit = api.Code(e.Code), exitOfWire(e.Code)
	} else if e, ok := errors.AsType[*client.ServerError](err); ok {
		f.answer.Code, f.exit = api.Code(e.Code), exitOfWire(e.Code)
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnreachable) {
		f.answer = api.Error{Code: api.CodeUnavailable, Message: err.Error()}
		f.exit = exitUnavailable
	}
	if f.answer.Code == api.CodeUnavailable && f.answer.Hint == "" {
		f.answer.Hint = "is brokerd running there? set the address of a node with --addr or " + addressVariable
	}
	if n, ok := errors.AsType[named](err); ok && f.answer.Code == api.CodeNotFound {
		nameWhatIsMissing(ctx, g, n, &f.answer)
	}
	return f
}

// exitOf returns the exit code that goes with a code of /v1.
func exitOf(code api.Code) int {
	switch code {
	case codeUsage, api.CodeInvalid:
		return exitUsage
	case api.CodeNotFound:
		return exitNotFound
	case api.CodeExists, api.CodePrecondition, api.CodeNotWritable, api.CodeTooLarge, api.CodeTopicFull:
		return exitRefused
	case api.CodeUnauthenticated, api.CodeForbidden:
		return exitForbidden
	case api.CodeUnavailable, api.CodeBusy, api.CodeStarting, api.CodeExiting, api.CodeUncertain:
		return exitUnavailable
	case codePartial:
		return exitPartial
	case codeInterrupted:
		return exitInterrupted
	case codeFailed, api.CodeMethod, api.CodeCorrupt, api.CodeInternal:
	}
	return exitFailed
}

// exitOfWire returns the exit code that goes with a code of the NSQ protocol.
func exitOfWire(code string) int {
	switch code {
	case "E_BAD_TOPIC", "E_BAD_CHANNEL", "E_BAD_PARTITION":
		return exitUsage
	case "E_AUTH_FIRST", "E_AUTH_FAILED", "E_AUTH_DISABLED", "E_UNAUTHORIZED":
		return exitForbidden
	case "E_SUB_FAILED":
		return exitRefused
	}
	return exitFailed
}

// print writes the failure the way the output was asked for.
func (f *failure) print(w io.Writer, as format) {
	if as == formatJSON || as == formatNDJSON {
		raw, err := json.Marshal(api.ErrorAnswer{Error: &f.answer})
		if err == nil {
			_, _ = fmt.Fprintf(w, "%s\n", raw) // there is nobody to tell
			return
		}
	}
	text := "error: " + f.answer.Message
	if f.answer.Hint != "" {
		text += " (" + f.answer.Hint + ")"
	}
	_, _ = fmt.Fprintln(w, text) // there is nobody to tell
}
