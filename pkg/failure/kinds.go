package failure

import "github.com/brokerd/brokerd/pkg/fate"

const (
	nameHint    = "a name has 1 to 64 characters of a-z A-Z 0-9 . _ -, may end in #ephemeral, and must not be . or .."
	diskHint    = "free disk space or inodes on the node: brokerctl cluster health names it"
	healthHint  = "check the cluster health"
	unknownHint = "the metadata leader changed or did not respond in time: check whether the change was made before you repeat the request"
	badTopic    = "%s topic name %q is not valid"
)

// Of publishes.
var (
	NotLeading  = refused(1, "this node no longer leads the partition", Kind{Word: "NOT_LEADING", Code: NotWritable, Hint: "retry", Extended: FailedOnNotLeader})
	Moving      = refused(2, "leadership is being transferred to another node", Kind{Word: "NOT_LEADING", Code: NotWritable, Hint: "retry", Extended: FailedOnNotLeader})
	TooFewISR   = refused(3, "not enough in-sync replicas", Kind{Word: "NOT_WRITABLE", Code: NotWritable, Hint: healthHint, Extended: FailedOnNotWritable})
	Unconfirmed = of(fate.Uncertain, 4, "written, but not confirmed by all in-sync replicas", Kind{Word: "OUTCOME_UNKNOWN", Code: Uncertain})
	BodyTooBig  = refused(5, "publish too large for one batch", Kind{
		Word: "BODY_TOO_BIG", Code: TooLarge, Hint: "publish fewer messages at a time",
		Wire: BadBody, Said: "%s body too big for topic %q: publish fewer messages at a time",
	})
	Uncommitted = refused(6, "uncommitted-bytes limit of the node reached", Kind{Word: "BUSY", Code: Busy, Hint: "check the cluster health: followers or disks are slow"})

	PartitionNeeded = refused(15, "ordered topic requires a partition or a key", Kind{
		Word: "PARTITION_NEEDED", Code: Invalid, Hint: "specify a partition or a key",
		Wire: BadPartition, Said: "%s to topic %q needs a partition or a key",
	})
	MessageTooBig = refused(18, "message too big", Kind{Word: "MSG_TOO_BIG", Code: TooLarge, Wire: BadMessage, Said: "%s message too big for topic %q"})
	QueueFull     = refused(19, "too many bytes waiting to be written", Kind{Word: "BUSY", Code: Busy, Hint: "retry"})
	DiskFull      = refused(20, "disk nearly full", Kind{Word: "DISK_FULL", Code: NotWritable, Hint: diskHint, Extended: FailedOnNotWritable})
	ShuttingDown  = refused(21, "shutting down", Kind{Word: "EXITING", Code: Exiting, Hint: "retry on another node", Extended: FailedOnNotWritable})
	NotLeased     = refused(25, "leadership lease expired", Kind{Word: "NOT_LEADING", Code: NotWritable, Hint: "retry", Extended: FailedOnNotLeader})
	NoSpace       = refused(26, "no disk space for append", Kind{Word: "DISK_FULL", Code: NotWritable, Hint: diskHint, Extended: FailedOnNotWritable})
	NoLeader      = refused(29, "partition has no leader", Kind{Word: "NO_LEADER", Code: NotWritable, Hint: healthHint, Extended: FailedOnNotWritable})
	NoFiles       = refused(36, "no file descriptor for append", Kind{
		Word: "NO_FILES", Code: NotWritable,
		Hint: "raise the node's limit of open files (LimitNOFILE), or use fewer topics", Extended: FailedOnNotWritable,
	})
	NoWindow  = refused(37, "the leader has not learned the topic's deduplication window yet", Kind{})
	TopicFull = refused(38, "topic is full", Kind{Word: "TOPIC_FULL", Code: Full, Hint: "consume or drop messages of the topic, or raise its max-bytes"})
	NoMemory  = refused(39, "busy: the node's client memory budget is exhausted, retry later",
		Kind{Word: "BUSY", Code: Busy, Hint: "retry: other clients use the node's memory budget"})

	PublishRefused = refused(0, "publishes cannot be stored now", Kind{Word: "NOT_WRITABLE", Code: NotWritable, Hint: healthHint})
	PublishUnknown = of(fate.Uncertain, 0, "the messages may be stored",
		Kind{Word: "OUTCOME_UNKNOWN", Code: Uncertain, Hint: "the message may be stored; sending it again may store it twice"})
)

// Of consumers.
var (
	TooManyConsumers = refused(22, "too many consumers on the channel", Kind{Word: "TOO_MANY_CONSUMERS", Code: Precondition})
	// 23 was given out once.
	NotInFlight      = refused(24, "ID not in flight", Kind{})
	SubscriptionGone = refused(28, "subscription ended", Kind{})
	FinNotStored     = of(fate.Uncertain, 35, "not confirmed by enough in-sync replicas in time: the message will be redelivered", Kind{})
)

// Of topics, channels and partitions.
var (
	TopicNotFound     = refused(10, "topic not found", Kind{Word: "TOPIC_NOT_FOUND", Code: NotFound, Extended: TopicNotExist})
	TopicExists       = refused(11, "already exists with a different configuration", Kind{Word: "TOPIC_EXISTS", Code: Exists, Hint: "describe or alter the existing one"})
	ChannelNotFound   = refused(12, "channel not found", Kind{Word: "CHANNEL_NOT_FOUND", Code: NotFound})
	PartitionNotFound = refused(13, "partition not found", Kind{
		Word: "PARTITION_NOT_FOUND", Code: NotFound,
		Wire: BadPartition, Said: "%s topic %q does not have the partition",
	})
	InvalidConfig  = refused(14, "invalid configuration", Kind{Word: "INVALID_CONFIG", Code: Invalid})
	InvalidTopic   = refused(16, "invalid topic name", Kind{Word: "INVALID_TOPIC", Code: Invalid, Hint: nameHint, Wire: BadTopic, Said: badTopic})
	InvalidChannel = refused(17, "invalid channel name", Kind{
		Word: "INVALID_CHANNEL", Code: Invalid, Hint: nameHint,
		Wire: BadChannel, Said: "%s channel name %q is not valid",
	})
	InvalidName = refused(40, "invalid name", Kind{Word: "INVALID_NAME", Code: Invalid, Hint: nameHint})
	NotInTrash  = refused(41, "not in the trash: never deleted, already restored, or purged",
		Kind{Word: "NOT_IN_TRASH", Code: NotFound, Hint: "list restorable topics: brokerctl topic list --deleted"})
	ManyDeleted = refused(42, "several deleted topics have this name",
		Kind{Word: "MANY_DELETED", Code: Precondition, Hint: "name the incarnation: brokerctl topic list --deleted -o wide"})
	NameTaken = refused(43, "name already in use",
		Kind{Word: "NAME_TAKEN", Code: Exists, Hint: "name the incarnation of the one to restore, and replace: brokerctl topic restore TOPIC --incarnation N --replace deletes the topic that has the name"})
	SavedNotFound    = refused(44, "saved positions not found", Kind{})
	StaleVersion     = refused(45, "stale version", Kind{Word: "CHANGED_MEANWHILE", Code: Precondition, Hint: "retry"})
	StaleEpoch       = refused(46, "stale epoch", Kind{})
	StaleIncarnation = refused(47, "stale incarnation", Kind{Word: "CHANGED_MEANWHILE", Code: Precondition, Hint: "retry"})
	StaleIndex       = refused(48, "index already applied", Kind{})
	LimitReached     = refused(49, "limit reached", Kind{Word: "LIMIT_REACHED", Code: Precondition})
	TooManyCreated   = refused(50, "busy: topic and channel creation limit reached for this address or node: use existing ones, "+
		"retry later, or raise creation-burst and creation-rate",
		Kind{Word: "TOO_MANY_CREATED", Code: Busy, Hint: "use existing topics and channels, or retry later: creation-rate limits new ones"})
	NothingToUndo = refused(0, "no saved position: the channel was not moved, or the move was undone or is too old", Kind{Word: "NOTHING_TO_UNDO", Code: NotFound})
	NotSaved      = refused(0, "no answer of the metadata in time", Kind{
		Word: "NOT_SAVED", Code: Unavailable, Hint: "nothing was changed: repeat the request once brokerctl cluster health shows a controller",
	})
	ChannelThere = refused(0, "channel exists: it was restored already, or not deleted in the last days", Kind{
		Word: "CHANNEL_EXISTS", Code: Exists, Hint: "there is nothing to restore: brokerctl channel describe shows its position, brokerctl channel seek moves it",
	})
	ChannelAgain = refused(77, "channel was created again since it was deleted", Kind{
		Word: "CHANNEL_EXISTS", Code: Exists, Hint: "to move it to the position of the deleted one: brokerctl channel restore TOPIC/CHANNEL --replace; channel undo reverts that",
	})
	MessageNotFound = refused(72, "message not found: deleted by retention, or not published yet", Kind{Word: "MESSAGE_NOT_FOUND", Code: NotFound})
	UnknownSetting  = refused(51, "unknown setting", Kind{})
)

// Of replicas and nodes.
var (
	NodeNotFound      = refused(33, "node not found", Kind{Word: "NODE_NOT_FOUND", Code: NotFound})
	NodeInUse         = refused(34, "node still holds replicas", Kind{Word: "NODE_IN_USE", Code: Precondition, Hint: "decommission the node first, and wait until it holds nothing"})
	NotInISR          = refused(52, "node is not in sync", Kind{Word: "NOT_IN_SYNC", Code: Precondition, Hint: "choose a replica that is in sync"})
	Suspect           = refused(53, "replica may have lost acknowledged records", Kind{})
	InvalidISR        = refused(54, "invalid in-sync set", Kind{})
	InvalidAssignment = refused(55, "invalid replica assignment", Kind{Word: "INVALID_ASSIGNMENT", Code: Invalid})
	TooFewNodes       = refused(56, "not enough nodes for the replicas", Kind{Word: "TOO_FEW_NODES", Code: Precondition, Hint: "request fewer replicas, or add nodes"})
	FeatureLevel      = refused(57, "feature level not supported",
		Kind{Word: "FEATURE_LEVEL", Code: Precondition, Hint: "upgrade those nodes first, or remove those that are gone for good: brokerctl node list -o wide"})
	NoSetAside = refused(58, "no set-aside copy of this name on the node",
		Kind{Word: "NO_SET_ASIDE_COPY", Code: NotFound, Hint: "list them: brokerctl partition repair TOPIC/PARTITION"})
	NoOtherInSync = refused(0, "no other replica is in sync and up",
		Kind{Word: "NOT_IN_SYNC", Code: Precondition, Hint: "with one replica there is no other; else wait until one is in sync: brokerctl partition describe TOPIC/PARTITION"})
	NoneInSync = refused(0, "no replica that is in sync is up", Kind{
		Word: "NOT_IN_SYNC", Code: Precondition,
		Hint: "start a node of the in-sync set with its data; only if all of them are lost for good: brokerctl partition elect TOPIC/PARTITION --unclean --to NODE",
	})
	// Unreadable is a damaged range that may be intact elsewhere. Where it is not, reading it fails with Damaged.
	Unreadable = refused(78, "part of the log is damaged on this node, and other replicas may hold it intact", Kind{
		Word: "UNREADABLE", Code: Unavailable, Hint: "retry: another replica becomes the leader, or the range is copied from one",
	})
	NoLoss = refused(59, "replica has not lost its data, or the partition has other replicas: elect one of those", Kind{Word: "NOTHING_LOST", Code: Precondition})

	OnlyCopies = refused(73, "node has the only copy of deleted topics that can still be restored", Kind{
		Word: "ONLY_COPIES", Code: Precondition,
		Hint: "to keep a topic, undrain the node, restore the topic (brokerctl topic restore T) and decommission the node again; otherwise confirm with lose_deleted=true, in brokerctl --lose-deleted",
	})
	NodeActive   = refused(74, "node is up and not decommissioning", Kind{Word: "NODE_ACTIVE", Code: Precondition, Hint: "decommission or stop the node first"})
	Unreachable  = refused(0, "node unreachable", Kind{Word: "UNREACHABLE", Code: Unavailable, Hint: healthHint})
	CannotDrain  = refused(0, "node cannot be drained", Kind{Word: "CANNOT_DRAIN", Code: Precondition, Hint: "wait until the other replicas are in sync, or use force"})
	NotMoving    = refused(0, "partition is not being reassigned", Kind{Word: "NOT_MOVING", Code: Precondition})
	NodeNotUp    = refused(0, "node is not up", Kind{Word: "NODE_NOT_UP", Code: Precondition, Hint: "see the list of nodes"})
	TooManyMoves = refused(0, "too many reassignments in progress", Kind{Word: "TOO_MANY_MOVES", Code: Precondition, Hint: "retry when some have finished"})
	NodeLeaving  = refused(0, "node is being decommissioned",
		Kind{Word: "NODE_LEAVING", Code: Precondition, Hint: "cancel the decommissioning first: brokerctl node undrain NODE"})
)

// Of the metadata and of calls between nodes.
var (
	NoSuchCall    = refused(27, "unknown cluster call", Kind{})
	NotController = refused(30, "this node is not the metadata leader",
		Kind{Word: "NO_CONTROLLER", Code: Unavailable, Hint: "no metadata leader: a majority of the voters must be up"})
	NoQuorum = refused(0, "the states of nodes are not known",
		Kind{Word: "NO_CONTROLLER", Code: Unavailable, Hint: "start the missing voters: brokerctl cluster raft; if they are lost for good: brokerd recover"})
	LastVoter        = refused(31, "node is the last voter", Kind{Word: "LAST_VOTER", Code: Precondition, Hint: "the last voter cannot be removed or demoted"})
	NotVoter         = refused(32, "node is not a voter", Kind{})
	Removed          = refused(60, "node removed from the cluster", Kind{})
	UnknownNode      = refused(61, "no cluster member with this node id", Kind{})
	NotServing       = refused(62, "node is not serving", Kind{})
	ClusterBusy      = refused(63, "too many cluster calls in progress", Kind{})
	LeaderAlive      = refused(64, "leader is alive", Kind{})
	MetadataBusy     = refused(65, "too many pending metadata commands", Kind{})
	MetadataDiskFull = refused(66, "metadata disk full", Kind{
		Word: "METADATA_DISK_FULL", Code: NotWritable,
		Hint: "free disk space on that node: purge deleted topics (brokerctl topic list --deleted), delete topics with --purge, empty channels, or remove other files from the disk",
	})
	NotApplied = of(fate.Uncertain, 71, "changed in the metadata, but not applied by a leader yet", Kind{
		Word: "OUTCOME_UNKNOWN", Code: Uncertain, Hint: "the change is stored: the leader retries until it can apply it",
	})
	ChannelUnconfirmed = of(fate.Uncertain, 75, "channel created or restored, but not confirmed by all leaders of the topic", Kind{
		Word: "CHANNEL_UNCONFIRMED", Code: Unavailable, Hint: "repeat the request: a leader does not respond, and is replaced if it failed",
	})
	MetadataClosed = refused(67, "metadata store is closed", Kind{})
	NotProposed    = refused(68, "metadata command not proposed", Kind{})
	CommandUnknown = of(fate.Uncertain, 69, "metadata command outcome unknown", Kind{
		Word: "CHANGE_UNKNOWN", Code: Unavailable, Hint: unknownHint,
	})
	Behind = of(fate.Uncertain, 76, "the metadata command was decided, but this node does not know the outcome yet", Kind{
		Word: "CHANGE_UNKNOWN", Code: Unavailable, Hint: unknownHint,
	})
	CommandTooLarge = refused(70, "command too large", Kind{})
)

// Of users, tokens and rules.
var (
	InvalidAccess    = refused(0, "invalid user, token or rule", Kind{Word: "INVALID", Code: Invalid})
	UserNotFound     = refused(0, "user not found", Kind{Word: "USER_NOT_FOUND", Code: NotFound, Hint: "list them: brokerctl user list"})
	TokenNotFound    = refused(0, "token not found", Kind{Word: "TOKEN_NOT_FOUND", Code: NotFound, Hint: "list them: brokerctl token list"})
	RuleNotFound     = refused(0, "rule not found", Kind{Word: "RULE_NOT_FOUND", Code: NotFound, Hint: "list them: brokerctl acl list"})
	UserExists       = refused(0, "user already exists", Kind{Word: "USER_EXISTS", Code: Exists, Hint: "grant rules to the existing one, or delete it first"})
	TokenExists      = refused(0, "token already exists", Kind{Word: "TOKEN_EXISTS", Code: Exists})
	CertificateTaken = refused(0, "certificate name belongs to another user", Kind{Word: "CERTIFICATE_TAKEN", Code: Exists})
	AccessLimit      = refused(0, "limit of users, tokens, rules or certificate names reached", Kind{Word: "LIMIT_REACHED", Code: Precondition})
	LastAdmin        = refused(0, "no administrator would remain with a credential that does not expire", Kind{
		Word: "LAST_ADMINISTRATOR", Code: Precondition,
		Hint: "give another user admin and a password, a certificate or a token that does not expire, or disable access control first",
	})
	ClusterPortOpen = refused(0, "the cluster port is open: any process that reaches it could join as a node, and be administrator", Kind{
		Word: "CLUSTER_PORT_OPEN", Code: Precondition,
	})
	AccessUnconfirmed = of(fate.Uncertain, 0, "access control changed, but not confirmed by all nodes", Kind{
		Word: "ACCESS_UNCONFIRMED", Code: Unavailable,
		Hint: "the change is stored: a node that has not confirmed it applies it once it has contact to the others, and until then decides by the earlier users, tokens and rules",
	})
	WrongCredentials = refused(0, "invalid credentials", Kind{Word: "UNAUTHORIZED", Code: Unauthenticated})
	ManyFailures     = refused(0, "too many failed logins from this address: retry in a few seconds", Kind{Word: "TOO_MANY_FAILED_LOGINS", Code: Throttled})
	ManyPasswords    = refused(0, "busy: too many passwords are being checked", Kind{Word: "BUSY", Code: Busy, Hint: "retry"})
	NotPermitted     = refused(0, "not permitted", Kind{Word: "FORBIDDEN", Code: Forbidden, Hint: "an administrator can grant it: brokerctl acl grant"})
)

// All returns every Kind.
func All() []*Kind {
	return []*Kind{
		Refusal, OutcomeUnknown, Damaged, NotLeading, Moving, TooFewISR, Unconfirmed, BodyTooBig, Uncommitted,
		PartitionNeeded, MessageTooBig, QueueFull, DiskFull, ShuttingDown, NotLeased, NoSpace, NoLeader, NoFiles,
		NoWindow, TopicFull, NoMemory, PublishRefused, PublishUnknown, TooManyConsumers, NotInFlight,
		SubscriptionGone, FinNotStored, TopicNotFound, TopicExists, ChannelNotFound, PartitionNotFound,
		InvalidConfig, InvalidTopic, InvalidChannel, InvalidName, NotInTrash, ManyDeleted, NameTaken,
		SavedNotFound, StaleVersion, StaleEpoch, StaleIncarnation, StaleIndex, LimitReached, TooManyCreated,
		NothingToUndo, NotSaved, ChannelThere, ChannelAgain, MessageNotFound, UnknownSetting, NodeNotFound, NodeInUse, OnlyCopies, NotInISR, Suspect,
		InvalidISR, InvalidAssignment, TooFewNodes, FeatureLevel, NoSetAside, NoOtherInSync, NoneInSync,
		NoLoss, NodeActive, Unreachable,
		CannotDrain, NotMoving, NodeNotUp, TooManyMoves, NodeLeaving, NoSuchCall, NotController, NoQuorum, LastVoter,
		NotVoter, Removed, UnknownNode, NotServing, ClusterBusy, LeaderAlive, MetadataBusy, MetadataDiskFull,
		MetadataClosed, NotProposed, CommandUnknown, Behind, CommandTooLarge, NotApplied, ChannelUnconfirmed,
		InvalidAccess, UserNotFound, TokenNotFound, RuleNotFound, UserExists, TokenExists, CertificateTaken,
		AccessLimit, LastAdmin, ClusterPortOpen, AccessUnconfirmed, WrongCredentials, ManyFailures, ManyPasswords, NotPermitted, Unreadable,
	}
}
