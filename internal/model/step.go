package model

import (
	"fmt"
	"strings"
)

// StepKind is the kind of an event.
type StepKind uint8

// The kinds of steps. The kinds of answers follow those of requests.
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
	LoseDisk
	LoseDirectory
	RefuseLife
	Hand
	Finish
	FinishUnnoted
	MakeSnapshot
	TellSnapshot
	TellChange
	TellChangeUnnoted
	DropSnapshot
	DropChange
	RefuseShare
	CountShare
	Checkpoint
	PassTime
	Recognise
	HoldLease
	Take
	Write
	SendRelay
	HandOver
	ForgetRelay
	LoseEnd
	PutBack
	Report
	GoAlone
	Yield

	stepKinds // how many there are
)

// What happens to the answer to a push if it does not just arrive.
const (
	AnswerLost    = 1
	AnswerDelayed = 2
)

// Step is one step of a history: the event, the replicas, and their numbers.
type Step struct {
	Kind    StepKind
	A, B, C uint8
}

func (s Step) answered(how StepKind) Step {
	s.Kind += how
	return s
}

// String describes the step in one line.
func (s Step) String() string {
	a, b, rec := name(s.A), name(s.B), record(s.C)
	switch s.Kind {
	case Start:
		what := "an empty partition"
		if s.C > 0 {
			what = fmt.Sprintf("a partition with %d committed", s.C)
		}
		return fmt.Sprintf("%s, in sync on %v, without a leader", what, set(s.B))
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
	case TellCommitted:
		return fmt.Sprintf("%s tells %s that %d is committed", a, b, s.C)
	case Kill:
		return fmt.Sprintf("%s is killed and starts again", a)
	case PowerCut:
		lost := fmt.Sprintf("%s loses power, and its log beyond %d", a, s.B)
		if s.C > 0 {
			lost += fmt.Sprintf(", and goes back to position %d", s.C-1)
		}
		return lost + ", and starts again"
	case LoseDisk:
		return fmt.Sprintf("%s loses its disk and starts with an empty one", a)
	case LoseDirectory:
		return fmt.Sprintf("%s loses the directory of its replica and starts again", a)
	case Lose:
		return fmt.Sprintf("the network loses the %s from %s to %s", kind(s.A), b, name(s.C))
	case AckArrives:
		return fmt.Sprintf("a late answer reaches %s: %s holds what is below %d", a, b, s.C)
	default:
		return s.ofMetadata(s.ofPush() + s.ofChannel() + s.ofLease() + s.ofDamage())
	}
}

// ofPush describes a push and its outcome.
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

// ofChannel describes a step of the ordered channel.
func (s Step) ofChannel() string {
	a, b := name(s.A), name(s.B)
	switch s.Kind {
	case Hand:
		return fmt.Sprintf("%s hands offset %d to a consumer of the ordered channel", a, s.B)
	case Finish:
		return fmt.Sprintf("%s finishes what is below %d", a, s.B)
	case FinishUnnoted:
		return fmt.Sprintf("%s finishes what is below %d, and cannot note it", a, s.B)
	case MakeSnapshot:
		return fmt.Sprintf("%s makes a snapshot, which has the position %d", a, s.B)
	case TellSnapshot:
		return fmt.Sprintf("%s tells %s its snapshot, which has the position %d", a, b, s.C)
	case TellChange:
		return fmt.Sprintf("%s tells %s of the FIN that makes the position %d", a, b, s.C)
	case TellChangeUnnoted:
		return fmt.Sprintf("%s tells %s of the FIN that makes the position %d, which cannot note it", a, b, s.C)
	case DropSnapshot:
		return fmt.Sprintf("%s sends %s its snapshot, which has the position %d, and the request is dropped", a, b, s.C)
	case DropChange:
		return fmt.Sprintf("%s sends %s the FIN that makes the position %d, and the request is dropped", a, b, s.C)
	case RefuseShare:
		return fmt.Sprintf("%s sends %s a change of another channel, which does not follow what %s has: it is refused", a, b, b)
	case CountShare:
		return fmt.Sprintf("%s sends %s a change of another channel, is answered, and counts the position %d for %s", a, b, s.C, b)
	case Checkpoint:
		return fmt.Sprintf("%s stores the channel's position as %d", a, s.B)
	default:
		return ""
	}
}

// ofLease describes a step of the delivery lease.
func (s Step) ofLease() string {
	a, b := name(s.A), name(s.B)
	switch s.Kind {
	case PassTime:
		return "the time of a lease passes"
	case Recognise:
		return fmt.Sprintf("%s answers %s as the leader", a, b)
	case HoldLease:
		return fmt.Sprintf("%s has the lease", a)
	case Take:
		return fmt.Sprintf("%s takes a message for a consumer", a)
	case Write:
		return fmt.Sprintf("%s writes it to the consumer", a)
	case SendRelay:
		return fmt.Sprintf("%s sends it to a relay, whose process is paused", a)
	case HandOver:
		return fmt.Sprintf("the relay hands over what the leader of epoch %d has sent", s.A)
	case ForgetRelay:
		return fmt.Sprintf("the relay was paused, and drops what the leader of epoch %d has sent", s.A)
	default:
		return ""
	}
}

// ofDamage describes a step in which a log is damaged, or a consequence of it.
func (s Step) ofDamage() string {
	a := name(s.A)
	switch s.Kind {
	case LoseEnd:
		return fmt.Sprintf("%s restarts, finds its log damaged and cuts it to %d", a, s.B)
	case PutBack:
		return fmt.Sprintf("%s restarts with an older state of its disk, which has the log up to %d", a, s.B)
	case Report:
		if s.C > 0 {
			return fmt.Sprintf("metadata: %s is back and suspect, ISR %v", a, set(s.B))
		}
		return fmt.Sprintf("metadata: %s is back and not suspect, ISR %v", a, set(s.B))
	case GoAlone:
		return fmt.Sprintf("%s stops waiting for an in-sync replica to compare logs with", a)
	case Yield:
		return fmt.Sprintf("metadata: %s yields to %s, which holds more, in epoch %d", a, name(s.B), s.C)
	default:
		return ""
	}
}

// ofMetadata describes a step of the metadata, or any other step.
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
		if loss(s.C) == lostDirectory {
			return fmt.Sprintf("metadata: %s is back, ISR %v", a, set(s.B))
		}
		return fmt.Sprintf("metadata: %s is back and may have lost data, ISR %v", a, set(s.B))
	case RefuseLife:
		return fmt.Sprintf("metadata: what %s proposed is refused, %s has started again since", a, name(s.B))
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

func name(r uint8) string { return "abc?"[min(r, noLeader):][:1] }

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
