package model

import (
	"fmt"
	"strings"
)

// StepKind says what happened.
type StepKind uint8

// What can happen. The answered kinds follow theirs.
const (
	Start StepKind = iota
	Publish
	TellFailed
	RollBack
	Sync
	Commit
	Meet
	PushDelayed
	Push
	PushAnswerLost
	PushAnswerDelayed
	PushArrives
	PushArrivesAnswerLost
	PushArrivesAnswerDelayed
	PushChecked
	Refuse
	Lose
	AckArrives
	TellCommitted
	Elect
	Leave
	ProposeIn
	ProposeOut
	GiveUp
	Decide
	Apply
	Register
	Kill
	PowerCut
	Finish
	SendPosition

	stepKinds // how many there are
)

// How the answer to a push fares when it does not just arrive.
const (
	AnswerLost    = 1
	AnswerDelayed = 2
)

// Step is one step of a history: what happened, to whom, with which numbers.
type Step struct {
	Kind    StepKind
	A, B, C uint8
}

func (s Step) answered(how StepKind) Step {
	s.Kind += how
	return s
}

// String tells the step in a line.
func (s Step) String() string {
	a, b, rec := name(s.A), name(s.B), record(s.C)
	switch s.Kind {
	case Start:
		return "an empty partition, in sync on a, b and c, without a leader"
	case Publish:
		return fmt.Sprintf("%s appends %v at offset %d", a, rec, s.B)
	case TellFailed:
		return fmt.Sprintf("%s tells the publisher of %v that it failed", a, rec)
	case RollBack:
		return fmt.Sprintf("%s takes %v back from offset %d", a, rec, s.B)
	case Sync:
		return fmt.Sprintf("%s syncs its log up to %d", a, s.B)
	case Commit:
		return fmt.Sprintf("%s commits up to %d and answers the publishers", a, s.B)
	case Meet:
		return fmt.Sprintf("%s compares logs with %s and keeps %d", a, b, s.C)
	case Finish:
		return fmt.Sprintf("%s finishes what is below %d and answers the consumer", a, s.B)
	case SendPosition:
		return fmt.Sprintf("%s tells %s the channel's position %d", a, b, s.C)
	case TellCommitted:
		return fmt.Sprintf("%s tells %s that %d is committed", a, b, s.C)
	case Kill:
		return fmt.Sprintf("%s is killed and starts again", a)
	case PowerCut:
		return fmt.Sprintf("%s loses power, and its log beyond %d, and starts again", a, s.B)
	case Lose:
		return fmt.Sprintf("the network loses the %s from %s to %s", kind(s.A), b, name(s.C))
	case AckArrives:
		return fmt.Sprintf("a late answer reaches %s: %s holds what is below %d", a, b, s.C)
	default:
		return s.ofMetadata(s.ofPush())
	}
}

// ofPush tells a push and what becomes of it.
func (s Step) ofPush() string {
	a, b, rec := name(s.A), name(s.B), record(s.C)
	pushes := fmt.Sprintf("%s pushes %v to %s", a, rec, b)
	arrives := fmt.Sprintf("a late push of %v from %s reaches %s", rec, a, b)
	switch s.Kind {
	case PushDelayed:
		return pushes + ", which is delayed"
	case Push:
		return pushes + ", which acknowledges"
	case PushAnswerLost:
		return pushes + ", whose answer is lost"
	case PushAnswerDelayed:
		return pushes + ", whose answer is delayed"
	case PushArrives:
		return arrives + ", which acknowledges"
	case PushArrivesAnswerLost:
		return arrives + ", whose answer is lost"
	case PushArrivesAnswerDelayed:
		return arrives + ", whose answer is delayed"
	case PushChecked:
		return arrives + ", which checks it and does not append it yet"
	case Refuse:
		return pushes + ", which has something else there and wants to compare logs"
	default:
		return ""
	}
}

// ofMetadata tells a step of the metadata, or what else is given.
func (s Step) ofMetadata(otherwise string) string {
	a := name(s.A)
	switch s.Kind {
	case Elect:
		return fmt.Sprintf("metadata: %s is elected in epoch %d, ISR %v", a, s.B, set(s.C))
	case Leave:
		return fmt.Sprintf("metadata: %s leaves the ISR, which is now %v", a, set(s.B))
	case Decide:
		return fmt.Sprintf("metadata: what %s proposed is applied, ISR %v", a, set(s.B))
	case Register:
		return fmt.Sprintf("metadata: %s is back and may have lost data, ISR %v", a, set(s.B))
	case ProposeIn:
		return fmt.Sprintf("%s proposes %s for the ISR, which holds what is below %d", a, name(s.B), s.C)
	case ProposeOut:
		return fmt.Sprintf("%s proposes to take %s out of the ISR", a, name(s.B))
	case GiveUp:
		return fmt.Sprintf("%s takes its proposal for refused", a)
	case Apply:
		return fmt.Sprintf("%s applies version %d of the metadata", a, s.B)
	default:
		return otherwise
	}
}

func name(r uint8) string { return "abc?"[min(r, nobody):][:1] }

// String returns the members, as "{a c}".
func (s set) String() string {
	var names []string
	for r := range uint8(replicas) {
		if s.has(r) {
			names = append(names, name(r))
		}
	}
	return "{" + strings.Join(names, " ") + "}"
}

// String returns the record, as "m1 (epoch 2)".
func (r record) String() string {
	if r == 0 {
		return "nothing"
	}
	return fmt.Sprintf("m%d (epoch %d)", r.id(), r.epoch())
}

// String returns what the message is.
func (k kind) String() string {
	if k == push {
		return "push"
	}
	return "answer"
}
