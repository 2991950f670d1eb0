package api

import "context"

// Repair lists the copies of one partition on all nodes: those in use, damaged or not, and
// set-aside ones.
type Repair struct {
	Topic     string         `json:"topic"`
	Partition int            `json:"partition"`
	Copies    []RepairCopy   `json:"copies"`
	SetAside  []SetAsideCopy `json:"set_aside"`
	// MissingNodes did not answer and may have further copies.
	MissingNodes []string `json:"missing_nodes,omitempty"`
}

// RepairCopy is a replica in use on one node.
type RepairCopy struct {
	Node         string `json:"node"`
	Leader       bool   `json:"leader"`
	InSync       bool   `json:"in_sync"`
	Open         bool   `json:"open"` // false: the node cannot open it, see its log; the following fields are unknown
	LogStart     uint64 `json:"log_start"`
	CommittedEnd uint64 `json:"committed_end"`
	LogEnd       uint64 `json:"log_end"`
	// Damaged: part of it is unreadable. Damage lists the known ranges.
	Damaged bool          `json:"damaged"`
	Damage  []DamageRange `json:"damage"`
	// Refusing: it refuses its leader, which lacks committed messages of this copy.
	Refusing bool `json:"refusing"`
	// Lost: its data is missing, and no other replica is in sync.
	Lost bool `json:"lost"`
}

// SetAsideCopy is a copy set aside because it was damaged, could not be opened, or differed
// from the leader's log.
type SetAsideCopy struct {
	Node         string        `json:"node"`
	Name         string        `json:"name"`
	Path         string        `json:"path"`
	LogStart     uint64        `json:"log_start"`
	CommittedEnd uint64        `json:"committed_end"` // as recorded in its log: it may have been higher
	LogEnd       uint64        `json:"log_end"`
	Damage       []DamageRange `json:"damage"` // in the data read so far
	// Unreadable is the reason why its extent is unknown; absent if it is known.
	Unreadable string `json:"unreadable,omitempty"`
	// Why is the reason for keeping it; "" means that the replica has replaced it and it is
	// about to be deleted.
	Why string `json:"why"`
	// Waits: only an operator releases it.
	Waits bool `json:"waits"`
}

// DamageRange is an unreadable range of a log: offsets From to Next, exclusive. If they are
// equal, no offset is lost.
type DamageRange struct {
	File     string `json:"file"`
	Position int64  `json:"position"` // in the file
	From     uint64 `json:"from"`
	Next     uint64 `json:"next"`
}

// RepairPartition is an operator's decision about the copies on one node: the name of a
// set-aside copy to discard, or that the loss of all data is accepted.
type RepairPartition struct {
	Node       string `json:"node"`
	Discard    string `json:"discard,omitempty"`
	AcceptLoss bool   `json:"accept_loss,omitempty"`
}

// Repair lists the copies of a partition. It changes nothing.
func (c Operations) Repair(ctx context.Context, topic string, partition int) (*Repair, error) {
	return into[Repair](ctx, c.t, partitionPath(topic, partition, "repair"))
}

// RepairPartition performs an operator's decision, and returns the remaining copies.
func (c Operations) RepairPartition(ctx context.Context, topic string, partition int, req RepairPartition) (*Repair, error) {
	return post[Repair](ctx, c.t, partitionPath(topic, partition, "repair"), req)
}
