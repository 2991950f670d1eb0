package raftstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

func told(t *testing.T, r meta.Result, err error) answer {
	t.Helper()
	text, err := encodeAnswer(r, err)
	if err != nil {
		t.Fatal(err)
	}
	a, err := decodeAnswer(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestErrorsKeepTheirIdentityOnTheWay(t *testing.T) {
	for _, known := range failure.All() {
		if known.Number == 0 {
			continue
		}
		err := fmt.Errorf("topic %q: %w", "t", known)
		a := told(t, meta.Result{Index: 7}, err)
		got := a.err()
		if !errors.Is(got, known) || got.Error() != err.Error() || fate.Of(got) != known.Data || a.Index != 7 {
			t.Errorf("%d: %v, %v", known.Number, got, fate.Of(got))
		}
	}
}

func TestErrorsWithoutACodeKeepTheirFate(t *testing.T) {
	a := told(t, meta.Result{}, fate.Refuse("something new"))
	if err := a.err(); fate.Of(err) != fate.Refused || err.Error() != "something new" {
		t.Error(err)
	}
	a = told(t, meta.Result{}, errors.New(strings.Repeat("x", 2*maxAnswerText)))
	if err := a.err(); !errors.Is(err, failure.CommandUnknown) || fate.Of(err) != fate.Uncertain || len(err.Error()) != maxAnswerText {
		t.Error(err)
	}
	a = told(t, meta.Result{Index: 3, Existed: true}, nil)
	if err := a.err(); err != nil || !a.Existed || a.Index != 3 {
		t.Errorf("%+v, %v", a, err)
	}
	if err := (&answer{}).err(); !errors.Is(err, failure.CommandUnknown) {
		t.Error(err)
	}
	if _, err := decodeAnswer([]byte("{")); err == nil {
		t.Error("half an answer was read")
	}
}

func TestForgottenResultIsNotInvented(t *testing.T) {
	m := newMachine(4)
	for i := range uint64(6) {
		cmd, err := meta.EncodeCommandAt(meta.NodeStarted{Node: meta.Node{ID: "n1"}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		m.Apply(logEntry(i+1, cmd))
	}
	if r, err := m.outcome(answer{Index: 6}); err != nil || r.Node == nil || r.Node.Incarnation != 6 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := m.outcome(answer{Index: 2}); !errors.Is(err, failure.Behind) || fate.Of(err) != fate.Uncertain || r.Index != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	refused := told(t, meta.Result{Index: 2}, failure.TopicExists)
	if _, err := m.outcome(refused); !errors.Is(err, failure.TopicExists) {
		t.Error(err)
	}
}

func TestInvalidForwardedCommandsAreRefused(t *testing.T) {
	s := open(t, Options{NodeID: "n1", Bootstrap: true, InMemory: true})
	if _, err := s.HandleForwarded(t.Context(), []byte("nothing of that kind")); fate.Of(err) != fate.Refused {
		t.Error(err)
	}
}
