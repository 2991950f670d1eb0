package api

// Policy is how a channel treats messages that its consumers do not finish, and how fast it
// delivers, with what its topic and the cluster decide where the channel does not.
type Policy struct {
	MaxAttempts     int    `json:"max_attempts"`      // deliveries of one message; 0: no limit
	OnExhausted     string `json:"on_exhausted"`      // of a message that has had them: see OnExhausted
	OnExpired       string `json:"on_expired"`        // of a message whose time to live is over: dead-letter or drop
	DeadLetterTopic string `json:"dead_letter_topic"` // where dead letters go
	Backoff         string `json:"backoff"`           // delay before a redelivery: 1s..10m, or off
	Rate            int    `json:"rate"`              // messages a second over all nodes; 0: no limit
	// Own names what the channel chose itself, as the fields are named here.
	Own []string `json:"own"`
}

// What becomes of a message that has had all its attempts.
const (
	OnExhaustedDeadLetter = "dead-letter" // it goes to the dead-letter topic
	OnExhaustedDrop       = "drop"        // it is finished
	OnExhaustedBlock      = "block"       // it stays and is not delivered; an ordered channel waits
)

// PolicyPatch is a choice for a channel, or for all channels of a topic that make none. What
// is nil stays.
type PolicyPatch struct {
	MaxAttempts     *int    `json:"max_attempts,omitempty"` // 0: no limit
	OnExhausted     *string `json:"on_exhausted,omitempty"`
	OnExpired       *string `json:"on_expired,omitempty"`        // dead-letter or drop
	DeadLetterTopic *string `json:"dead_letter_topic,omitempty"` // "": <topic>.<channel>.dlq
	Backoff         *string `json:"backoff,omitempty"`
	Rate            *int    `json:"rate,omitempty"` // 0: no limit
	// Reset names fields, as they are named here, that go back to the default.
	Reset []string `json:"reset,omitempty"`
}

// AlterChannel changes a channel: what is nil stays.
type AlterChannel struct {
	Ordered *bool        `json:"ordered,omitempty"` // the same as order strict, or none
	Order   *string      `json:"order,omitempty"`   // none, strict or key
	Policy  *PolicyPatch `json:"policy,omitempty"`
	Filter  *string      `json:"filter,omitempty"` // "": none any more
}
