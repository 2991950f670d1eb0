package channel

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestScripts replays the histories in testdata. A line is a comment (#), a
// command, or (>) the expected output of the previous command.
func TestScripts(t *testing.T) { golden.Scripts(t, "testdata/*.txt", runScript) }

func runScript(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	r := &script{s: New(0, false), now: time.Unix(0, 0)}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		answer, err := r.run(words)
		if err != nil {
			t.Fatalf("%s%v", line, err)
		}
		if err := check(r.s); err != nil {
			t.Fatalf("%s%v", line, err)
		}
		if answer != "" {
			out.WriteString("> " + answer + "\n")
		}
	}
	return out.String()
}

// script runs the commands of a history.
type script struct {
	s   *State
	now time.Time
	end seq.Offset
}

func (r *script) run(words []string) (string, error) {
	var n seq.Offset
	var consumer uint64
	var d time.Duration
	for _, w := range words[1:] {
		if v, err := strconv.ParseUint(w, 10, 50); err == nil {
			n = seq.Offset(v)
		} else if v, err := strconv.ParseUint(strings.TrimPrefix(w, "c"), 10, 50); err == nil {
			consumer = v
		} else if v, err := time.ParseDuration(w); err == nil {
			d = v
		} else if w != "on" && w != "off" && w != "ordered" {
			return "", fmt.Errorf("what is %q", w)
		}
	}
	last := words[len(words)-1]
	switch words[0] {
	case "new":
		r.s, r.end = New(n, last == "ordered"), n
	case "end":
		r.end = n
	case "take":
		if d == 0 {
			d = time.Minute
		}
		return printDeliveries(r.s.Take(r.now, consumer, d, int(n), r.end, nil)), nil
	case "fin":
		return printError(r.s.Finish(n, consumer)), nil
	case "req":
		return printError(r.s.Requeue(n, consumer, r.now, d)), nil
	case "touch":
		return printError(r.s.Touch(n, consumer, r.now, d, 15*time.Minute)), nil
	case "tick":
		return r.tick(d), nil
	case "restart":
		r.s = Restore(r.s.View().Position(r.now, r.now.UnixNano()), r.s.ledger.ordered, r.now, r.now.UnixNano())
	case "show":
		return r.show(), nil
	case "leave":
		return fmt.Sprint(r.s.TakenBy(consumer).Disconnect()), nil
	default:
		return "", r.steer(words[0], n, d, last == "on")
	}
	return "", nil
}

func (r *script) steer(command string, n seq.Offset, d time.Duration, on bool) error {
	switch command {
	case "defer":
		r.s.Defer(n, r.now, d)
	case "giveback":
		r.s.UndoTake(n)
	case "drop":
		r.s.Drop(n)
	case "advance":
		r.s.AdvanceTo(n)
	case "seek":
		r.s.Operator().Seek(n)
	case "empty":
		r.s.Operator().Seek(max(r.end, r.s.View().Cursor()))
	case "pause":
		r.s.Paused = on
	case "ordered":
		r.s.Operator().SetOrder(policy.StrictIf(on))
	default:
		return fmt.Errorf("unknown command %q", command)
	}
	return nil
}

// tick advances the time, and stops at each event.
func (r *script) tick(d time.Duration) string {
	var parts []string
	for until := r.now.Add(d); ; {
		at, ok := r.s.NextEvent()
		if !ok || at.After(until) {
			r.now = until
			break
		}
		r.now = at
		before := r.s.ledger.deferred
		r.s.Expire(at, func(consumer uint64, o seq.Offset) {
			parts = append(parts, fmt.Sprintf("%v: %d of c%d timed out", at.Sub(time.Unix(0, 0)), o, consumer))
		})
		if due := before - r.s.ledger.deferred; due > 0 {
			parts = append(parts, fmt.Sprintf("%v: %d due", at.Sub(time.Unix(0, 0)), due))
		}
	}
	return strings.Join(parts, ", ")
}

func (r *script) show() string {
	c := r.s.View().Counts(r.end)
	text := fmt.Sprintf("floor %d cursor %d depth %d in flight %d deferred %d", r.s.View().Floor(), r.s.View().Cursor(), c.Depth, c.InFlight, c.Deferred)
	for from, end := range r.s.ledger.done.Ranges() {
		text += fmt.Sprintf(" [%d,%d)", from, end)
	}
	return text
}

func printDeliveries(list []Delivery) string {
	if len(list) == 0 {
		return "nothing"
	}
	var parts []string
	for _, d := range list {
		text := fmt.Sprint(d.Offset)
		if d.Attempts > 1 {
			text += fmt.Sprintf(" (attempt %d)", d.Attempts)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func printError(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
