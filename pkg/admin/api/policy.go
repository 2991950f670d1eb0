package api

// Policy is the effective policy of a channel for unfinished messages and the delivery rate,
// including the settings of its topic and the cluster.
type Policy struct {
	MaxAttempts     int    `json:"max_attempts"`      // deliveries of one message; 0: no limit
	OnExhausted     string `json:"on_exhausted"`      // of a message that has had them: see OnExhausted
	OnExpired       string `json:"on_expired"`        // of a message whose time to live is over: dead-letter or drop
	DeadLetterTopic string `json:"dead_letter_topic"` // where dead letters go
	Backoff         string `json:"backoff"`           // delay before a redelivery: 1s..10m, or off
	Rate            int    `json:"rate"`              // messages a second over all nodes; 0: no limit
	// Own lists the fields set by the channel itself.
	Own []string `json:"own"`
}

// Outcomes for a message that has used up its attempts.
const (
	OnExhaustedDeadLetter = "dead-letter" // move it to the dead-letter topic
	OnExhaustedDrop       = "drop"        // it is finished
	OnExhaustedBlock      = "block"       // it stays and is not delivered; an ordered channel waits
)

// PolicyPatch changes the policy of a channel, or the default of a topic's channels. nil fields
// are not changed.
type PolicyPatch struct {
	MaxAttempts     *int    `json:"max_attempts,omitempty"` // 0: no limit
	OnExhausted     *string `json:"on_exhausted,omitempty"`
	OnExpired       *string `json:"on_expired,omitempty"`        // dead-letter or drop
	DeadLetterTopic *string `json:"dead_letter_topic,omitempty"` // "": <topic>.<channel>.dlq
	Backoff         *string `json:"backoff,omitempty"`
	Rate            *int    `json:"rate,omitempty"` // 0: no limit
	// Reset lists the fields to reset to their defaults.
	Reset []string `json:"reset,omitempty"`
}

// AlterChannel changes a channel; nil fields are not changed.
type AlterChannel struct {
	Ordered *bool        `json:"ordered,omitempty"` // the same as order strict, or none
	Order   *string      `json:"order,omitempty"`   // none, strict or key
	Policy  *PolicyPatch `json:"policy,omitempty"`
	Filter  *string      `json:"filter,omitempty"` // "": removes the filter
}
