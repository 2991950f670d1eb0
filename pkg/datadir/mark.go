package datadir

// The marks are files in the directory of a replica, beside its log. Each applies at
// every start until it is removed.
const (
	// MarkReplica is written when the replica is created. It distinguishes a
	// replica without messages from a directory that has lost everything.
	MarkReplica = "replica"
	// MarkMissing: the replica's data is missing, until it is copied again.
	MarkMissing = "missing"
	// MarkLost: the only replica of a partition lost its data and began again
	// without messages. It stays until an operator accepts the loss.
	MarkLost = "lost"
	// MarkSuspect: the replica was truncated when it was opened. It stays until the
	// metadata has removed the replica from the in-sync set, or has elected it
	// nevertheless. It holds what was found.
	MarkSuspect = "suspect"
	// MarkOutdated: the replica is of another disk than the one with which the node has acknowledged
	// messages, or of an older copy of it. It is set aside once it can be copied again, unless an operator
	// elects it.
	MarkOutdated = "outdated"
)
