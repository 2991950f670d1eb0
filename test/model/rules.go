package model

import "fmt"

// Rule is one rule of the protocol. A search can be configured to break it.
type Rule uint8

// The rules, in the order of docs/replication.md.
const (
	AppendIsNotCommit   Rule = iota // a follower treats only those records as committed that its leader called committed
	CommitInEpoch                   // a new leader commits inherited records once its ISR has acknowledged them to this leader in this epoch
	AckAfterSync                    // sync=always: only durable records are acknowledged
	MinimumHoldsEnd                 // while fewer replicas than MinISR are in sync, a term commits only what it inherited
	FailedOnlyUnwritten             // a publish is reported as failed only before its append; later its outcome is uncertain

	FenceFollower  // a follower refuses leaders of other epochs than its own
	FenceLeader    // a leader drops acknowledgements of other epochs
	PersistEpoch   // a follower persists an epoch before it answers any request in it
	CheckAndAppend // checking and appending a push are one atomic step
	TermCloses     // a leader that learns of a newer epoch stops appending and acknowledging

	Reconcile          // a follower compares its log with the leader's before it takes part in an epoch
	WalkBack           // it compares backwards to the point where the logs agree; it does not truncate at its own committed end
	ReconcileByContent // it compares epoch and checksum, not only the epoch
	DuplicateByContent // a retry counts as "held already" if epoch and checksum are the same, not only the offset
	SessionResets      // a new session resets what the leader believes that its follower holds
	NoRollback         // a live term undoes nothing

	ElectionBumpsEpoch // every election begins a new epoch
	ElectFromISR       // only a member of the ISR is elected
	RestartEndsTerm    // a restarted leader leads again only in a new epoch
	BootRule           // a node that may have lost data leaves the ISR before it does anything else
	RegisterFirst      // a restarted node acts on no metadata that is older than its own restart
	EmptyLeaves        // a node with an empty disk leaves every ISR before it does anything else
	LastLeaves         // it also leaves those ISRs of which it is the last member
	LossUntilTold      // it reports the loss at every start until the metadata knows it
	MissingIsSilent    // a replica in the ISR that finds no data of its own answers no request and leads nothing until it has left the ISR

	SuspectLast  // a replica that lost the end of its log reports that before it acts; it is elected only if every in-sync replica is suspect
	LongerStays  // a follower truncates nothing committed: it refuses the leader, and the leader yields
	CompareFirst // a leader that opened its log from disk appends and adds no member before it has compared logs with an in-sync replica

	CompareAndSwap  // a change of the ISR is applied only to the version for which it was made
	ShrinkApplied   // a member counts until the change that removes it is applied
	GrowCounts      // a new member counts from before the proposal that adds it
	UndecidedCounts // a proposed member counts until the metadata has passed the proposal's version, whatever answer the proposer got
	GrowNeedsLife   // a proposal names the joiner's start: the metadata refuses a joiner that has restarted with less since
	GrowNeedsStart  // a joiner holds everything below the start of the leader's epoch, not only below the committed end

	FinReplicatedFirst // an ordered FIN is applied once every ISR member has the position
	PositionWaits      // a position beyond a follower's data is kept for later, and not reduced to its end
	PositionsJoin      // a joiner has the channel's position
	SnapshotFirst      // an ordered channel delivers nothing in a term before every ISR member has the position from which the term begins
	SnapshotCountsSent // a snapshot counts changes in flight as finished
	SnapshotTakenOnce  // a snapshot that is sent again, in another session or after a restart of the follower, undoes nothing
	ShareNamesPrevious // a follower refuses a change of positions that does not follow its last one: an answer acknowledges everything that was sent before
	FinNoted           // a FIN counts at a replica that has stored it
	CheckpointKeeps    // a checkpoint stores again what it does not contain
	OrderedBootRule    // a node that loses power leaves the ISR of a partition with an ordered channel, whatever its sync policy is
	ForgetBeyondEnd    // a position beyond the end of the only copy is removed from disk before anything is appended

	LeaseEnds        // a leader delivers for at most one lease after its last contact
	LeaseBegins      // a lease begins, also after a gap, when every member that counts has confirmed the term
	LeaseNeedsJoiner // a joiner counts for the lease, too, from before the proposal
	LeaseAskedLast   // the lease is checked again right before a message leaves
	RelayBeginsAnew  // a relay that was paused for longer than a lease drops its messages and begins again

	rules // the number of rules
)

// ruleNames are the names of the rules in docs/replication.md.
var ruleNames = [rules]string{
	"AppendIsNotCommit", "CommitInEpoch", "AckAfterSync", "MinimumHoldsEnd", "FailedOnlyUnwritten",
	"FenceFollower", "FenceLeader", "PersistEpoch", "CheckAndAppend", "TermCloses",
	"Reconcile", "WalkBack", "ReconcileByContent", "DuplicateByContent", "SessionResets", "NoRollback",
	"ElectionBumpsEpoch", "ElectFromISR", "RestartEndsTerm", "BootRule", "RegisterFirst",
	"EmptyLeaves", "LastLeaves", "LossUntilTold", "MissingIsSilent",
	"SuspectLast", "LongerStays", "CompareFirst",
	"CompareAndSwap", "ShrinkApplied", "GrowCounts", "UndecidedCounts", "GrowNeedsLife", "GrowNeedsStart",
	"FinReplicatedFirst", "PositionWaits", "PositionsJoin", "SnapshotFirst", "SnapshotCountsSent",
	"SnapshotTakenOnce", "ShareNamesPrevious", "FinNoted", "CheckpointKeeps", "OrderedBootRule", "ForgetBeyondEnd",
	"LeaseEnds", "LeaseBegins", "LeaseNeedsJoiner", "LeaseAskedLast", "RelayBeginsAnew",
}

// String returns the rule's name.
func (r Rule) String() string { return ruleNames[r] }

// RuleNames returns the names of all rules, in their order.
func RuleNames() []string { return ruleNames[:] }

// ParseRule returns the rule with a name.
func ParseRule(name string) (Rule, error) {
	for i, n := range ruleNames {
		if n == name {
			return Rule(i), nil
		}
	}
	return 0, fmt.Errorf("no rule is called %q", name)
}

// Invariant is something that must hold in every state.
type Invariant uint8

// The invariants. Those that docs/replication.md numbers have their number here.
const (
	OneLeader      Invariant = iota // I1: at most one live term per epoch
	SamePrefix                      // all replicas that call an offset committed hold the same record there
	NoRetreat                       // a committed end moves back only if a power cut loses what sync=interval risked
	NothingLost                     // every replica that may be elected has all committed records in its log
	ClosedIsSilent                  // I5: only the live term of a node's own epoch appends and commits
	PositionHolds                   // a position never passes the committed end, and a finished message stays finished
	InOrder                         // an ordered channel never moves back before a delivered message, and skips none
	OneName                         // an epoch and an offset name one record
	FailedIsFailed                  // a publish that was reported as failed is never committed
	EnoughCopies                    // an acknowledged record is on as many disks as the topic asks for, minus those that failed
	LateIsSilent                    // a leader delivers nothing later than one lease after its replacement, or two through a relay

	invariants // the number of invariants
)

var invariantNames = [invariants]string{
	"OneLeader (I1)", "SamePrefix (I2)", "NoRetreat (I3)", "NothingLost (I4)",
	"ClosedIsSilent (I5)", "PositionHolds (I6)", "InOrder (I7)", "OneName", "FailedIsFailed", "EnoughCopies", "LateIsSilent",
}

// String returns the invariant's name.
func (i Invariant) String() string { return invariantNames[i] }

// Violation says which invariant does not hold, and where.
type Violation struct {
	Invariant Invariant
	Detail    string
}

// String returns the violation as one line.
func (v Violation) String() string { return v.Invariant.String() + ": " + v.Detail }

// broken returns the first watched invariant that t, reached from s by step, violates, and whether
// there is one.
func (c *Config) broken(s, t *State, step Step) (Violation, bool) {
	for i := range invariants {
		if c.Ignore[i] {
			continue
		}
		if detail := c.check(i, s, t, step); detail != "" {
			return Violation{i, detail}, true
		}
	}
	return Violation{}, false
}

// check describes how an invariant is violated, or returns "".
func (c *Config) check(i Invariant, s, t *State, step Step) string {
	switch i {
	case OneLeader:
		return t.twoLeaders()
	case SamePrefix:
		return t.differentPrefix()
	case NoRetreat:
		return c.retreat(s, t, step)
	case NothingLost:
		return c.missing(t)
	case ClosedIsSilent:
		return s.closedSpeaks(step)
	case PositionHolds:
		return t.positionWrong()
	case InOrder:
		return t.outOfOrder()
	case OneName:
		return t.twoOfAName()
	case FailedIsFailed:
		return t.failedAppears()
	case EnoughCopies:
		if !c.SyncAlways {
			return "" // copies may be in memory only
		}
		return t.fewCopies(c.MinISR)
	case LateIsSilent:
		return s.lateDelivery(step)
	default:
		return ""
	}
}

func (s *State) twoLeaders() string {
	for a := range s.nodes {
		for b := range a {
			if e := s.nodes[a].term; e != 0 && e == s.nodes[b].term {
				return fmt.Sprintf("%s and %s both lead in epoch %d", name(uint8(b)), name(uint8(a)), e)
			}
		}
	}
	return ""
}

func (s *State) differentPrefix() string {
	for r := range s.nodes {
		n := &s.nodes[r]
		for i := range n.committed {
			if n.log[i] != s.truth[i] {
				return fmt.Sprintf("offset %d is %v on %s and was committed as %v", i, n.log[i], name(uint8(r)), s.truth[i])
			}
		}
	}
	return ""
}

func (c *Config) retreat(s, t *State, step Step) string {
	risked := step.Kind == PowerCut && !c.SyncAlways || step.Kind == LoseDisk || step.Kind == LoseDirectory ||
		step.Kind == LoseEnd || step.Kind == PutBack
	for r := range s.nodes {
		if risked && uint8(r) == step.A {
			continue
		}
		if was, is := s.nodes[r].committed, t.nodes[r].committed; is < was {
			return fmt.Sprintf("the committed end of %s goes from %d back to %d", name(uint8(r)), was, is)
		}
	}
	return ""
}

// missing looks at every member of the ISR that may be elected, not only at the leader: any of them
// may be the next leader. A member that knows that it lost data does nothing before it has left the
// ISR or is known as suspect. A member whose disk is older than it knows does nothing as a leader
// before it has compared logs: until then another member must hold everything.
func (c *Config) missing(s *State) string {
	isr := s.latest().isr
	for i, want := range s.truth {
		if want == 0 {
			continue
		}
		held := c.Damage == NoDamage
		for r := range s.nodes {
			n := &s.nodes[r]
			holds := int(n.end) > i && n.log[i] == want
			held = held || holds && isr.has(uint8(r))
			if holds || !isr.has(uint8(r)) {
				continue
			}
			if n.lost == intact && s.electable(uint8(r)) && !c.excused(s, uint8(r)) {
				return fmt.Sprintf("%v was committed at offset %d, and %s, in the ISR, does not hold it", want, i, name(uint8(r)))
			}
		}
		if !held {
			return fmt.Sprintf("%v was committed at offset %d, and no replica in the ISR holds it", want, i)
		}
	}
	return ""
}

// closedSpeaks checks s, the state in which the step was taken.
func (s *State) closedSpeaks(step Step) string {
	if step.Kind != Publish && step.Kind != Commit {
		return ""
	}
	n := &s.nodes[step.A]
	if v := s.view(step.A); n.term == v.epoch && v.leader == step.A {
		return ""
	}
	return fmt.Sprintf("%s acts in epoch %d and knows of epoch %d", name(step.A), n.term, s.view(step.A).epoch)
}

func (s *State) positionWrong() string {
	isr := s.latest().isr
	for r := range s.nodes {
		n := &s.nodes[r]
		p := n.position
		switch {
		case n.lost != intact:
		case p > 0 && s.truth[p-1] == 0:
			return fmt.Sprintf("%s has position %d, which was not committed", name(uint8(r)), p)
		case isr.has(uint8(r)) && p < s.finished:
			return fmt.Sprintf("everything below %d is finished, and %s, in the ISR, would deliver from %d", s.finished, name(uint8(r)), p)
		}
	}
	return ""
}

// outOfOrder checks the positions from which members of the ISR would deliver, and what live terms
// would skip.
func (s *State) outOfOrder() string {
	isr := s.latest().isr
	for r := range s.nodes {
		n := &s.nodes[r]
		if isr.has(uint8(r)) && n.lost == intact && n.position+1 < s.delivered {
			return fmt.Sprintf("offset %d was delivered, and %s, in the ISR, would deliver from %d", s.delivered-1, name(uint8(r)), n.position)
		}
		for i := range n.position {
			if n.term != 0 && !s.done.has(n.log[i].id()) {
				return fmt.Sprintf("%s skips %v, which no consumer has answered", name(uint8(r)), n.log[i])
			}
		}
	}
	return ""
}

func (s *State) twoOfAName() string {
	for i := range maxLog {
		for a := range s.nodes {
			for b := range a {
				x, y := s.nodes[a].log[i], s.nodes[b].log[i]
				if x != y && x != 0 && y != 0 && x.epoch() == y.epoch() {
					return fmt.Sprintf("offset %d is %v on %s and %v on %s", i, y, name(uint8(b)), x, name(uint8(a)))
				}
			}
		}
	}
	return ""
}

func (s *State) failedAppears() string {
	for i, r := range s.truth {
		if r != 0 && s.failed.has(r.id()) {
			return fmt.Sprintf("%v is committed at offset %d, and its publisher was told that it failed", r, i)
		}
	}
	return ""
}

func (s *State) fewCopies(least int) string {
	for i, want := range s.truth {
		if want == 0 || !s.acked.has(want.id()) {
			continue
		}
		copies := 0
		for r := range s.nodes {
			if s.nodes[r].log[i] == want {
				copies++
			}
		}
		if copies+int(s.disks) < least {
			return fmt.Sprintf("%v was acknowledged, and the copies are %d", want, copies)
		}
	}
	return ""
}
