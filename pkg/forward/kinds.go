package forward

// Kinds of calls on peer.ClassForward. Kinds below KindPublish are reserved for the cluster itself.
const (
	KindPublish   uint8 = 16 // Publish -> Receipt: to the leader of a partition
	KindConverge  uint8 = 17 // Settle -> nothing: follow the metadata up to an index
	KindSubscribe uint8 = 18 // Subscribe -> ids: a relayed subscription begins; what stays in flight with it
	KindFetch     uint8 = 19 // Fetch -> Deliveries: answered when there is something
	KindAnswer    uint8 = 20 // Answers -> nothing: FIN, REQ and TOUCH
	KindLeave     uint8 = 21 // Leave -> nothing: the subscription ends
	KindReady     uint8 = 22 // Ready -> nothing: how many may be in flight
	KindInFlight  uint8 = 23 // InFlight -> nothing: to the next leader of a partition
	KindReturn    uint8 = 24 // Return -> nothing: a subscription will not join
	KindOperate   uint8 = 32 // Operate -> JSON: a named operation
)
