package failure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Kind is one way to fail: a row of the registry, and the error itself, which packages return and
// wrap by its name here, such as failure.TopicNotFound. It is not changed, and errors.Is finds it
// at whichever node.
type Kind struct {
	Number uint16    // between nodes; 0: it does not travel
	Text   string    // the text of the error
	Data   fate.Fate // what it means for the data
	Word   string    // on NSQ's HTTP endpoints; "": that of the generic Kind of Data
	Code   Code      // on /v1; "": likewise
	Hint   string    // what to do, on /v1
	// Wire is the code for NSQ clients, where the failure is that of the command and not of the
	// broker, and Said its text: formatted with the verb, and the name of the topic or channel.
	Wire Wire
	Said string
	// Extended is the code for clients that asked for extensions: they look up the partition's
	// leader again. It is sent without text.
	Extended Wire
}

// Error returns the text.
func (k *Kind) Error() string { return k.Text }

// Fate returns what it means for the data.
func (k *Kind) Fate() fate.Fate { return k.Data }

// of makes a row. All has to list it.
func of(data fate.Fate, number uint16, text string, k Kind) *Kind {
	k.Data, k.Number, k.Text = data, number, text
	return &k
}

func refused(number uint16, text string, k Kind) *Kind { return of(fate.Refused, number, text, k) }

// numbered is every Kind that has a number, by that.
var numbered = func() map[uint16]*Kind {
	out := map[uint16]*Kind{}
	for _, k := range All() {
		if k.Number != 0 {
			out[k.Number] = k
		}
	}
	return out
}()

// Numbered returns the Kind of a number, or nil.
func Numbered(number uint16) *Kind { return numbered[number] }

// The generic kinds: of errors that no row is for, and of rows without a word.
var (
	Refusal        = refused(0, "refused", Kind{Word: "REFUSED", Code: Precondition})
	OutcomeUnknown = of(fate.Uncertain, 0, "no answer in time; the request may have been carried out",
		Kind{Word: "OUTCOME_UNKNOWN", Code: Uncertain, Hint: "check what was carried out before you repeat the request"})
	Damaged = of(fate.Corrupt, 0, "stored data is damaged", Kind{Word: "CORRUPT", Code: Corrupt, Hint: "see the node's log for the location"})
)

// Find returns the outermost Kind in the chain of an error, or nil.
func Find(err error) *Kind { return find(err, func(*Kind) bool { return true }) }

// Of returns the row that says how an error is reported: the outermost one in its chain that
// has a code, or the generic one.
func Of(err error) *Kind {
	if k := find(err, func(k *Kind) bool { return k.Code != "" }); k != nil {
		return k
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return DiskFull
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return OutcomeUnknown
	}
	return generic(err)
}

func generic(err error) *Kind {
	switch fate.Of(err) {
	case fate.Refused:
		return Refusal
	case fate.Corrupt:
		return Damaged
	case fate.Uncertain:
	}
	return OutcomeUnknown
}

// OfPublish is Of for a publish. Its fate decides: what may be stored is OUTCOME_UNKNOWN, whatever
// the error is besides, and what is refused for a reason that no row is for is refused because
// publishes cannot be stored now.
func OfPublish(err error) *Kind {
	k := Of(err)
	switch fate.Of(err) {
	case fate.Uncertain:
		return PublishUnknown
	case fate.Refused:
		if k == Refusal || k.Data == fate.Uncertain {
			return PublishRefused
		}
	case fate.Corrupt:
	}
	return k
}

// Wiring returns the row of an error that has a code for NSQ clients, or nil.
func Wiring(err error) *Kind { return find(err, func(k *Kind) bool { return k.Wire != NoWire }) }

// Extending returns the code that clients of the extensions know an error by, or NoWire.
func Extending(err error) Wire {
	if k := find(err, func(k *Kind) bool { return k.Extended != NoWire }); k != nil {
		return k.Extended
	}
	return NoWire
}

// find returns the first Kind of an error's tree that is wanted, depth first, or nil.
func find(err error, wanted func(*Kind) bool) *Kind {
	for err != nil {
		if k, ok := err.(*Kind); ok && wanted(k) { //nolint:errorlint // this walks the tree itself
			return k
		}
		switch x := err.(type) { //nolint:errorlint // likewise
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				if k := find(e, wanted); k != nil {
					return k
				}
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}

// About names what an error is about, unless the error begins with that. nil stays nil.
func About(what string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), what+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
