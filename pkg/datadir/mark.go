package datadir

// The marks are files in the directory of a replica, beside its log. What they say is
// known at every start until someone removes them.
const (
	// MarkReplica is written when the replica is made, and tells a replica without
	// messages from a directory that has lost everything.
	MarkReplica = "replica"
	// MarkMissing says that the replica's data is missing, until it is copied again.
	MarkMissing = "missing"
	// MarkLost says that the only replica of a partition had lost its data and began
	// again without messages. It stays until an operator accepts the loss.
	MarkLost = "lost"
	// MarkSuspect says that the replica was cut when it was opened, until the metadata
	// has let it go from the in-sync set, or has had it elected nevertheless. It tells
	// what was found.
	MarkSuspect = "suspect"
)
