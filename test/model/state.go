package model

import (
	"iter"
	"math/bits"
)

// Maximum sizes of a state. Bounds choose smaller ones.
const (
	replicas    = 3
	maxLog      = 3
	maxVersions = 8
	maxDelayed  = 2

	noLeader = replicas // the leader of a partition that is offline
)

// set is a set of replicas, or of ids of publishes, as bits.
type set uint8

func one(i uint8) set             { return 1 << i }
func (s set) has(i uint8) bool    { return s&one(i) != 0 }
func (s set) with(i uint8) set    { return s | one(i) }
func (s set) without(i uint8) set { return s &^ one(i) }
func (s set) size() int           { return bits.OnesCount8(uint8(s)) }
func (s set) members() iter.Seq[uint8] {
	return func(yield func(uint8) bool) {
		for r := range uint8(replicas) {
			if s.has(r) && !yield(r) {
				return
			}
		}
	}
}
func (s set) subsetOf(of set) bool { return s&^of == 0 }
func (s set) permuted(p *order) set { // replica i becomes replica p[i]
	var t set
	for i := range p {
		if s.has(uint8(i)) {
			t = t.with(p[i])
		}
	}
	return t
}

// record is a stored message: the epoch that appended it and the publish that it came from, which
// represents the content and therefore the checksum. 0 is no record.
type record uint8

func newRecord(epoch, id uint8) record { return record(epoch<<4 | id) }
func (r record) epoch() uint8          { return uint8(r >> 4) }
func (r record) id() uint8             { return uint8(r & 15) }

// decision is one version of the partition's metadata.
type decision struct {
	epoch, leader uint8
	isr           set
}

// proposal is a change of the ISR in transit to the metadata, made when its proposer had applied
// version base. isr 0 is none.
type proposal struct {
	isr   set
	base  uint8
	joins set   // the replica that was not in sync before: at most one
	life  uint8 // the joiner's, which the proposer has a session with
}

// loss is what a replica lacks of what it has acknowledged, until no other
// replica counts on it any more. Except for the last kind, the metadata does
// not know of it yet, and the node must register it before it does anything
// else.
type loss uint8

const (
	intact        loss = iota
	lostUnsynced       // a power cut took what was not synced
	lostDisk           // the disk is empty
	lostDirectory      // the replica's directory is missing
	missing            // the same, and the node has registered: it waits to be out of the ISR
	lostEnd            // opening the log has cut its end
	olderDisk          // the disk is older, and the node does not know it
)

// replica is one copy of the partition. The fields that survive a restart come first.
type replica struct {
	log       [maxLog]record
	end       uint8  // log end
	durable   uint8  // what a power cut leaves
	committed uint8  // committed end, as this replica knows it
	adopted   uint8  // the highest epoch that it has answered in
	position  uint8  // of the ordered channel: what it received; it uses only the committed part
	noted     uint8  // the position that a kill leaves: in the newest snapshot, or in the journal
	stored    uint8  // the position that a power cut leaves at least: in the newest snapshot
	taken     record // the newest snapshot that it has taken from a leader: of which epoch, and its number
	lost      loss
	harmed    bool // as the observer knows: its disk is older than what it has acknowledged
	// unverified: the log was opened from disk and not compared since. Noted where logs are damaged.
	unverified bool

	applied uint8 // version of the metadata that it acts on
	session bool  // as a follower: it has compared logs with the leader of its epoch

	// As a leader.
	term      uint8           // epoch of the live term; 0: it does not lead
	start     uint8           // log end when the term began
	heard     set             // followers that have a session in this term
	match     [replicas]uint8 // what each replica has acknowledged
	positions [replicas]uint8 // what each follower has of the channel's position
	shot      uint8           // the position in the newest snapshot
	told      set             // followers that were sent it in their session
	dropped   [replicas]uint8 // of each follower, one past the newest position that it was sent in a request that was dropped; 0: none
	lives     [replicas]uint8 // of each follower, the life that the session is with
	proposed  set             // the ISR that it has proposed, until that is decided
	handed    uint8           // one past the message of the ordered channel that a consumer has; 0: none
	lease     lease
}

type kind uint8

const (
	noMessage kind = iota
	push           // a record from a leader to a follower
	ack            // "I hold everything below" from a follower to a leader
)

// message is one that the network keeps: it may arrive at any later time, any
// number of times, or never.
type message struct {
	kind     kind
	from, to uint8
	epoch    uint8
	at       uint8 // a push: the record's offset; an ack: the end
	record   record
	stale    bool // it belongs to a session that has ended
	checked  bool // it has passed the follower's checks, but is not appended
}

// State is everything that the partition's nodes, its metadata and the network
// know, and below that what an observer has seen. It is a plain value.
type State struct {
	meta      [maxVersions + 1]decision // every version so far
	version   uint8                     // the latest
	nodes     [replicas]replica
	proposals [replicas]proposal
	post      [maxDelayed]message
	lives     [replicas]uint8    // how often each node has registered a loss
	suspects  [replicas]standing // in the ISR, that the metadata knows
	clock     clock
	relay     relay

	truth     [maxLog]record // the first record that anyone called committed, by offset
	acked     set            // publishes whose publisher was answered
	failed    set            // publishes that were called failed
	done      set            // publishes that a consumer of the ordered channel has answered
	finished  uint8          // the position whose FIN counts
	delivered uint8          // one past the last message of the ordered channel that anyone delivered
	published uint8
	crashes   uint8
	disks     uint8 // crashes that took everything, or a part of a log
}

// initial is a partition without a leader. It is empty, or everyone holds the
// same committed records.
func (c *Config) initial() State {
	var s State
	s.meta[0] = decision{leader: noLeader, isr: one(replicas) - 1}
	if c.InSync > 0 {
		s.meta[0].isr = one(uint8(c.InSync)) - 1
	}
	for i := range uint8(c.Held) {
		s.published++
		rec := newRecord(0, s.published)
		s.truth[i] = rec
		for r := range c.replicas().members() {
			n := &s.nodes[r]
			n.append(rec)
			n.durable, n.committed = n.end, n.end
		}
	}
	return s
}

// latest returns the current metadata.
func (s *State) latest() decision { return s.meta[s.version] }

// view returns the metadata that replica r acts on.
func (s *State) view(r uint8) decision { return s.meta[s.nodes[r].applied] }

// replicas returns the replicas that exist.
func (c *Config) replicas() set {
	if c.Alone {
		return one(0)
	}
	return one(replicas) - 1
}

// decide appends a version of the metadata.
func (s *State) decide(d decision) {
	s.version++
	s.meta[s.version] = d
}

// cut truncates n's log.
func (n *replica) cut(end uint8) {
	for i := end; i < n.end; i++ {
		n.log[i] = 0
	}
	n.end = min(n.end, end)
	n.durable = min(n.durable, end)
	n.committed = min(n.committed, end)
}

// append adds a record to n's log.
func (n *replica) append(r record) {
	n.log[n.end] = r
	n.end++
}

// closeTerm makes n a leader no more.
func (n *replica) closeTerm() {
	n.term, n.start, n.heard, n.proposed, n.shot, n.told, n.handed = 0, 0, 0, 0, 0, 0, 0
	n.match, n.positions, n.dropped, n.lives = [replicas]uint8{}, [replicas]uint8{}, [replicas]uint8{}, [replicas]uint8{}
	n.lease = lease{}
}

// registered reports whether the metadata knows of this start of the node, as far
// as that matters.
func (n *replica) registered() bool { return n.lost == intact || n.lost == missing }

// commit moves the committed end of replica r and shows the messages below it to the observer.
func (s *State) commit(r, end uint8) {
	n := &s.nodes[r]
	for i := n.committed; i < end; i++ {
		if s.truth[i] == 0 {
			s.truth[i] = n.log[i]
		}
	}
	n.committed = end
}
