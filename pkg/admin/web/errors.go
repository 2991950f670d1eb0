package web

import (
	"context"
	"errors"
	"syscall"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/topic"
)

// errUncertain is the end of a publish that was not answered in time.
var errUncertain = fate.Mark(errors.New("no answer in time; the request may have been carried out"), fate.Uncertain)

// Failure is how one error is told to clients. The status of the NSQ endpoints
// is that of the code.
type Failure struct {
	err  error
	Word string // on the NSQ endpoints
	Code api.Code
	Hint string // on /v1
}

// failures is the table of all that a broker refuses.
var failures = []Failure{
	{meta.ErrTopicNotFound, "TOPIC_NOT_FOUND", api.CodeNotFound, ""},
	{meta.ErrTopicNotFound, "TOPIC_NOT_FOUND", api.CodeNotFound, ""},
	{meta.ErrChannelNotFound, "CHANNEL_NOT_FOUND", api.CodeNotFound, ""},
	{topic.ErrChannelNotFound, "CHANNEL_NOT_FOUND", api.CodeNotFound, ""},
	{meta.ErrChannelNotFound, "CHANNEL_NOT_FOUND", api.CodeNotFound, ""},
	{meta.ErrPartitionNotFound, "PARTITION_NOT_FOUND", api.CodeNotFound, ""},
	{meta.ErrPartitionNotFound, "PARTITION_NOT_FOUND", api.CodeNotFound, ""},
	{host.ErrNoSetAside, "NO_SET_ASIDE_COPY", api.CodeNotFound, "list them: brokerctl partition repair TOPIC/PARTITION"},
	{host.ErrNoLoss, "NOTHING_LOST", api.CodePrecondition, ""},
	{meta.ErrNodeNotFound, "NODE_NOT_FOUND", api.CodeNotFound, ""},
	{meta.ErrNodeInUse, "NODE_IN_USE", api.CodePrecondition, "decommission the node first, and wait until it holds nothing"},
	{operate.ErrNodeActive, "NODE_ACTIVE", api.CodePrecondition, "decommission or stop the node first"},
	{meta.ErrLevel, "FEATURE_LEVEL", api.CodePrecondition, "upgrade those nodes first, or remove those that are gone for good: brokerctl node list -o wide"},
	{controller.ErrDrain, "CANNOT_DRAIN", api.CodePrecondition, "wait until the other replicas are in sync, or use force"},
	{controller.ErrNodeNotUp, "NODE_NOT_UP", api.CodePrecondition, "see the list of nodes"},
	{controller.ErrNotMoving, "NOT_MOVING", api.CodePrecondition, ""},
	{controller.ErrLeaving, "NODE_LEAVING", api.CodePrecondition, "cancel the decommissioning first: brokerctl node undrain NODE"},
	{controller.ErrTooManyMoves, "TOO_MANY_MOVES", api.CodePrecondition, "retry when some have finished"},
	{meta.ErrNotInISR, "NOT_IN_SYNC", api.CodePrecondition, "choose a replica that is in sync"},
	{meta.ErrInvalidAssignment, "INVALID_ASSIGNMENT", api.CodeInvalid, ""},
	{host.ErrNoLeader, "NO_LEADER", api.CodeNotWritable, "check the cluster health"},
	{operate.ErrUnreachable, "UNREACHABLE", api.CodeUnavailable, "check the cluster health"},
	{raftstore.ErrNotLeader, "NO_CONTROLLER", api.CodeUnavailable, "no metadata leader: a majority of the voters must be up"},
	{raftstore.ErrLastVoter, "LAST_VOTER", api.CodePrecondition, "the last voter cannot be removed or demoted"},
	{meta.ErrExists, "TOPIC_EXISTS", api.CodeExists, "describe or alter the existing one"},
	{meta.ErrNotInTrash, "NOT_IN_TRASH", api.CodeNotFound, "list what can be restored: brokerctl topic list --deleted"},
	{meta.ErrNameTaken, "NAME_TAKEN", api.CodeExists, "delete the topic that has the name first, then restore the other by its incarnation"},
	{meta.ErrManyDeleted, "MANY_DELETED", api.CodePrecondition, "name the incarnation: brokerctl topic list --deleted -o wide"},
	{directory.ErrInvalidTopic, "INVALID_TOPIC", api.CodeInvalid, nameHint},
	{directory.ErrInvalidChannel, "INVALID_CHANNEL", api.CodeInvalid, nameHint},
	{meta.ErrInvalidName, "INVALID_NAME", api.CodeInvalid, nameHint},
	{meta.ErrTooFewNodes, "TOO_FEW_NODES", api.CodePrecondition, "request fewer replicas, or add nodes"},
	{meta.ErrInvalidConfig, "INVALID_CONFIG", api.CodeInvalid, ""},
	{publish.ErrPartitionNeeded, "PARTITION_NEEDED", api.CodeInvalid, "specify a partition or a key"},
	{host.ErrMessageTooBig, "MSG_TOO_BIG", api.CodeTooLarge, ""},
	{consume.ErrTooManyConsumers, "TOO_MANY_CONSUMERS", api.CodePrecondition, ""},
	{limit.ErrNoMemory, "BUSY", api.CodeBusy, "retry: other clients use the node's memory budget"},
	{limit.ErrCreations, "TOO_MANY_CREATED", api.CodeBusy, "use existing topics and channels, or retry later: creation-rate limits new ones"},
	{host.ErrBusy, "BUSY", api.CodeBusy, "retry"},
	{coord.ErrBusy, "BUSY", api.CodeBusy, "check the cluster health: followers or disks are slow"},
	{host.ErrExiting, "EXITING", api.CodeExiting, "retry on another node"},
	{meta.ErrLimit, "LIMIT_REACHED", api.CodePrecondition, ""},
	{meta.ErrStaleVersion, "CHANGED_MEANWHILE", api.CodePrecondition, "retry"},
	{meta.ErrStaleIncarnation, "CHANGED_MEANWHILE", api.CodePrecondition, "retry"},
	{quota.ErrFull, "TOPIC_FULL", api.CodeTopicFull, "consume or drop messages of the topic, or raise its max-bytes"},
	{host.ErrDiskFull, "DISK_FULL", api.CodeNotWritable, diskHint},
	{commitlog.ErrNoSpace, "DISK_FULL", api.CodeNotWritable, diskHint},
	{commitlog.ErrNoFiles, "NO_FILES", api.CodeNotWritable, "raise the node's limit of open files (LimitNOFILE), or use fewer topics"},
	{syscall.ENOSPC, "DISK_FULL", api.CodeNotWritable, diskHint},
	{coord.ErrNotWritable, "NOT_WRITABLE", api.CodeNotWritable, "check the cluster health"},
	{coord.ErrNotLeading, "NOT_LEADING", api.CodeNotWritable, "retry"},
	{coord.ErrTooBig, "BODY_TOO_BIG", api.CodeTooLarge, "publish fewer messages at a time"},
	{context.DeadlineExceeded, "OUTCOME_UNKNOWN", api.CodeUncertain, ""},
	{context.Canceled, "OUTCOME_UNKNOWN", api.CodeUncertain, ""},
}

const (
	nameHint = "a name has 1 to 64 characters of a-z A-Z 0-9 . _ -, may end in #ephemeral, and must not be . or .."
	diskHint = "free disk space on the node"
)

// Explain finds the row of an error, or makes one up from its fate.
func Explain(err error) Failure {
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return f
		}
	}
	switch fate.Of(err) {
	case fate.Refused:
		return Failure{err, "REFUSED", api.CodePrecondition, ""}
	case fate.Corrupt:
		return Failure{err, "CORRUPT", api.CodeCorrupt, "see the node's log for the location"}
	case fate.Uncertain:
	}
	return Failure{err, "OUTCOME_UNKNOWN", api.CodeUncertain, ""}
}

// ExplainPublish is Explain for a publish. Its fate decides: what may be stored is
// OUTCOME_UNKNOWN, whatever the error is besides, and what is refused for a reason
// that the table does not know is refused because nothing can be written now.
func ExplainPublish(err error) Failure {
	f := Explain(err)
	switch fate.Of(err) {
	case fate.Uncertain:
		return Failure{err, "OUTCOME_UNKNOWN", api.CodeUncertain, "the message may be stored; sending it again may store it twice"}
	case fate.Refused:
		if f.Word == "REFUSED" || f.Code == api.CodeUncertain {
			return Failure{err, "NOT_WRITABLE", api.CodeNotWritable, "check the cluster health"}
		}
	case fate.Corrupt:
	}
	return f
}
