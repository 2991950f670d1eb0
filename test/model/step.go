package model

import (
	"fmt"
	"strconv"
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

// sentences describe the kinds of steps in one line. {a}, {b} and {c} are the replicas that A, B and C name,
// {A}, {B} and {C} their numbers, {m} is the record C, {isr} the set B, and {also} what String adds.
var sentences = [stepKinds]string{
	Start:                    "{also}, in sync on {isr}, without a leader",
	Publish:                  "{a} appends {m} at offset {B}",
	TellFailed:               "{a} tells the publisher of {m} that it failed",
	RollBack:                 "{a} takes {m} back from offset {B}",
	Sync:                     "{a} syncs its log up to {B}",
	Commit:                   "{a} commits up to {B} and answers the publishers",
	Meet:                     "{a} compares logs with {b} and keeps {C}",
	PushDelayed:              "{a} pushes {m} to {b}, which is delayed",
	Push:                     "{a} pushes {m} to {b}, which acknowledges",
	PushAnswerLost:           "{a} pushes {m} to {b}, whose answer is lost",
	PushAnswerDelayed:        "{a} pushes {m} to {b}, whose answer is delayed",
	PushArrives:              "a late push of {m} from {a} reaches {b}, which acknowledges",
	PushArrivesAnswerLost:    "a late push of {m} from {a} reaches {b}, whose answer is lost",
	PushArrivesAnswerDelayed: "a late push of {m} from {a} reaches {b}, whose answer is delayed",
	PushChecked:              "a late push of {m} from {a} reaches {b}, which checks it and does not append it yet",
	Refuse:                   "{a} pushes {m} to {b}, which has something else there and wants to compare logs",
	Lose:                     "the network loses the {also} from {b} to {c}",
	AckArrives:               "a late answer reaches {a}: {b} holds what is below {C}",
	TellCommitted:            "{a} tells {b} that {C} is committed",
	Elect:                    "metadata: {a} is elected in epoch {B}, ISR {also}",
	Leave:                    "metadata: {a} leaves the ISR, which is now {isr}",
	ProposeIn:                "{a} proposes {b} for the ISR, which holds what is below {C}",
	ProposeOut:               "{a} proposes to take {b} out of the ISR",
	GiveUp:                   "{a} takes its proposal for refused",
	Decide:                   "metadata: what {a} proposed is applied, ISR {isr}",
	Apply:                    "{a} applies version {B} of the metadata",
	Register:                 "metadata: {a} is back{also}, ISR {isr}",
	Kill:                     "{a} is killed and starts again",
	PowerCut:                 "{a} loses power, and its log beyond {B}{also}, and starts again",
	LoseDisk:                 "{a} loses its disk and starts with an empty one",
	LoseDirectory:            "{a} loses the directory of its replica and starts again",
	RefuseLife:               "metadata: what {a} proposed is refused, {b} has started again since",
	Hand:                     "{a} hands offset {B} to a consumer of the ordered channel",
	Finish:                   "{a} finishes what is below {B}",
	FinishUnnoted:            "{a} finishes what is below {B}, and cannot note it",
	MakeSnapshot:             "{a} makes a snapshot, which has the position {B}",
	TellSnapshot:             "{a} tells {b} its snapshot, which has the position {C}",
	TellChange:               "{a} tells {b} of the FIN that makes the position {C}",
	TellChangeUnnoted:        "{a} tells {b} of the FIN that makes the position {C}, which cannot note it",
	DropSnapshot:             "{a} sends {b} its snapshot, which has the position {C}, and the request is dropped",
	DropChange:               "{a} sends {b} the FIN that makes the position {C}, and the request is dropped",
	RefuseShare:              "{a} sends {b} a change of another channel, which does not follow what {b} has: it is refused",
	CountShare:               "{a} sends {b} a change of another channel, is answered, and counts the position {C} for {b}",
	Checkpoint:               "{a} stores the channel's position as {B}",
	PassTime:                 "the time of a lease passes",
	Recognise:                "{a} answers {b} as the leader",
	HoldLease:                "{a} has the lease",
	Take:                     "{a} takes a message for a consumer",
	Write:                    "{a} writes it to the consumer",
	SendRelay:                "{a} sends it to a relay, whose process is paused",
	HandOver:                 "the relay hands over what the leader of epoch {A} has sent",
	ForgetRelay:              "the relay was paused, and drops what the leader of epoch {A} has sent",
	LoseEnd:                  "{a} restarts, finds its log damaged and cuts it to {B}",
	PutBack:                  "{a} restarts with an older state of its disk, which has the log up to {B}",
	Report:                   "metadata: {a} is back and {also}, ISR {isr}",
	GoAlone:                  "{a} stops waiting for an in-sync replica to compare logs with",
	Yield:                    "metadata: {a} yields to {b}, which holds more, in epoch {C}",
}

// String describes the step in one line.
func (s Step) String() string {
	also := ""
	switch s.Kind {
	case Start:
		also = "an empty partition"
		if s.C > 0 {
			also = fmt.Sprintf("a partition with %d committed", s.C)
		}
	case Lose:
		also = kind(s.A).String()
	case Elect:
		also = set(s.C).String()
	case Register:
		if loss(s.C) != lostDirectory {
			also = " and may have lost data"
		}
	case PowerCut:
		if s.C > 0 {
			also = fmt.Sprintf(", and goes back to position %d", s.C-1)
		}
	case Report:
		also = "not suspect"
		if s.C > 0 {
			also = "suspect"
		}
	default:
	}
	return strings.NewReplacer("{a}", name(s.A), "{b}", name(s.B), "{c}", name(s.C), "{A}", strconv.Itoa(int(s.A)), "{B}", strconv.Itoa(int(s.B)),
		"{C}", strconv.Itoa(int(s.C)), "{m}", record(s.C).String(), "{isr}", set(s.B).String(), "{also}", also).Replace(sentences[s.Kind])
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
