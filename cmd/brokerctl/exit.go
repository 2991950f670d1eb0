package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/client"
	"github.com/brokerd/brokerd/pkg/failure"
)

// The exit codes, as documented in docs/brokerctl.md. Those of failures come from the registry.
const (
	// exitOK: success, or an interrupted read-only command.
	exitOK = 0
	// exitUnhealthy: the cluster, or the checked object, does not work as expected.
	exitUnhealthy = 10
	// exitDegraded: works with reduced redundancy.
	exitDegraded = 11
)

// exitError is the error with which the program exits.
type exitError struct {
	answer api.Error
	exit   int
	shown  bool // the output already contains the reason: print nothing to stderr
	cause  error
}

// Error returns the message.
func (f *exitError) Error() string { return f.answer.Message }

// Unwrap returns the cause of the failure, or nil.
func (f *exitError) Unwrap() error { return f.cause }

// usageError returns a command line error. %w works.
func usageError(text string, args ...any) *exitError {
	err := fmt.Errorf(text, args...)
	return &exitError{answer: api.Error{Code: failure.Usage, Message: err.Error()}, exit: failure.ExitUsage, cause: err}
}

// verdict exits with a code after the output has given the reason.
func verdict(exit int) error { return &exitError{exit: exit, shown: true} }

// diagnose returns the exit code and message for err, which is not nil.
func diagnose(ctx context.Context, err error) *exitError {
	if f, ok := errors.AsType[*exitError](err); ok {
		return f
	}
	if isInterrupted(ctx) {
		return &exitError{answer: api.Error{Code: failure.Interrupted, Message: "interrupted", Hint: "the request may have been carried out"}, exit: failure.ExitInterrupted, cause: err}
	}
	f := &exitError{answer: api.Error{Code: failure.Failed, Message: err.Error()}, exit: failure.ExitFailed, cause: err}
	if text := err.Error(); strings.HasPrefix(text, "required flag(s) ") || strings.HasPrefix(text, "if any flags in the group ") { // cobra has no type for these
		f.answer.Code, f.exit = failure.Usage, failure.ExitUsage
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		f.answer = api.Error{Code: e.Code, Message: err.Error(), Hint: e.Hint, Fate: e.Fate}
		f.exit = e.Code.Exit()
	} else if e, ok := errors.AsType[*client.ServerError](err); ok {
		f.said(e.Code, e.Text)
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnreachable) {
		f.answer = api.Error{Code: failure.Unavailable, Message: err.Error()}
		f.exit = failure.ExitUnavailable
	}
	if f.answer.Code == failure.Unavailable && f.answer.Hint == "" {
		f.answer.Hint = "is brokerd running there? set the address of a node with --addr or " + addressVariable
		if errors.Is(err, context.DeadlineExceeded) {
			f.answer.Hint = "it may hang, be overloaded or not be reachable; other nodes answer for the cluster, too: --addr or " + addressVariable
		}
	}
	return f
}

// said marks a failure as an answer of a broker over the NSQ protocol. Its code is that of the
// error frame, and its exit code that of the corresponding code of /v1. The text of a failed
// publish says whether it was refused or its outcome is unknown.
func (f *exitError) said(code, text string) {
	means, became := failure.Read(code, text)
	f.answer.Code, f.answer.Fate, f.exit = failure.Code(code), became.String(), means.Exit()
}

// print writes the failure in the requested format.
func (f *exitError) print(w io.Writer, as output.Format) {
	if as == output.FormatJSON || as == output.FormatNDJSON {
		raw, err := json.Marshal(api.ErrorAnswer{Error: &f.answer})
		if err == nil {
			_, _ = fmt.Fprintf(w, "%s\n", raw) // an error of stderr cannot be reported
			return
		}
	}
	text := "error: " + f.answer.Message
	if f.answer.Hint != "" {
		text += " (" + f.answer.Hint + ")"
	}
	_, _ = fmt.Fprintln(w, text) // an error of stderr cannot be reported
}
