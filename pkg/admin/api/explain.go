package api

import "time"

// Explanation reports whether a channel makes progress, and what prevents it.
type Explanation struct {
	Topic   string `json:"topic"`
	Channel string `json:"channel"`
	// Moving: a message was finished during the observation of one to five seconds, or there is none to
	// finish, or at the rate of the last minute none was to be expected during the observation.
	Moving      bool    `json:"moving"`
	Ready       int64   `json:"ready"` // waiting: neither in flight nor deferred
	InFlight    int64   `json:"in_flight"`
	Deferred    int64   `json:"deferred"`
	OldestAgeMS int64   `json:"oldest_age_ms"` // of the oldest unfinished message; 0: none
	Consumers   int     `json:"consumers"`
	InPerS      float64 `json:"in_per_s"`  // over the last minute
	OutPerS     float64 `json:"out_per_s"` // finished, likewise
	Causes      []Cause `json:"causes"`    // in the order in which to check them
	// MissingNodes lead partitions but did not answer; their messages are not counted.
	MissingNodes []string `json:"missing_nodes,omitempty"`
}

// Cause is one reason why messages of a channel are not delivered. A channel that makes
// progress can have causes, too, for some of its messages, partitions or consumers.
type Cause struct {
	Code  CauseCode `json:"code"`
	What  string    `json:"what"`  // for people
	Do    string    `json:"do"`    // the remedy, for people
	Count int64     `json:"count"` // the number of partitions, consumers or messages, as in What
	// Since is from when on it delays messages, as far as known. For pauses, partitions without a
	// leader and leaders that do not answer, it is the time of the event; for no_consumer, when the
	// last consumer left; for topic_full, when the refusals began; for in_flight_held, when the message was delivered that a consumer has had
	// longest. Else it is when the oldest unfinished message was published, or, if that is later, when
	// the first of the named consumers connected. nil: not known, or nothing is delayed.
	Since *time.Time `json:"since,omitempty"`
}

// CauseCode identifies a cause for programs.
type CauseCode string

// The causes, in the order in which they are named.
const (
	CauseNoLeader     CauseCode = "no_leader"      // partitions have no leader, or it does not answer
	CausePaused       CauseCode = "paused"         // the channel is
	CauseTopicPaused  CauseCode = "topic_paused"   // messages wait before all channels
	CauseDeferred     CauseCode = "deferred"       // all messages are deferred; after backoff, if a consumer failed
	CauseNoConsumer   CauseCode = "no_consumer"    // no subscription
	CauseBackoff      CauseCode = "backoff"        // consumers that requeued messages ask for none (RDY 0)
	CauseReadyZero    CauseCode = "rdy_zero"       // consumers ask for none (RDY 0)
	CauseRateLimited  CauseCode = "rate_limited"   // the channel's rate
	CauseExhausted    CauseCode = "exhausted"      // messages have had all their attempts, and stay
	CauseKeyBlocked   CauseCode = "key_blocked"    // messages wait for others of their key
	CauseSuspects     CauseCode = "suspects"       // messages that failed with others are delivered one at a time
	CauseRequeued     CauseCode = "requeued"       // consumers requeue what they receive, and finish nothing
	CauseInFlightHeld CauseCode = "in_flight_held" // consumers hold as many messages as they may, or answer none
	CauseSlowConsumer CauseCode = "slow_consumer"  // messages time out at consumers
	CauseSpinning     CauseCode = "spinning"       // messages are requeued as soon as they are delivered
	CauseTopicFull    CauseCode = "topic_full"     // the topic refuses publishes, since it has reached its max-bytes
	CauseFiltered     CauseCode = "filtered"       // the channel's filter leaves messages out, or cannot be used
)
