// Package api defines the JSON types of brokerd's /v1 administration API, and a Go client. The
// server in pkg/admin and brokerctl both use these types.
//
// It defines names, units and the form of requests and responses, not how they are executed: of
// brokerd's packages it imports only pkg/units.
//
// Invariants: fields may be added; they are never renamed, and their meaning never changes. An empty
// list is [], never null. A duration is a number of milliseconds in a field whose name ends in _ms,
// rounded away from 0, and additionally a string for units.ParseDuration in a field without that
// suffix; a request may use either. A time is RFC 3339. Sizes are in bytes. Names of ages and totals
// say so; totals of topics and channels count since the current leaders of the partitions took over.
//
// # Endpoints
//
//	GET    /v1/topics                                    TopicList
//	POST   /v1/topics               CreateTopic        → 201 Topic; 200 Topic if it exists with the same configuration
//	GET    /v1/topics/T                                  Topic
//	PATCH  /v1/topics/T             ConfigPatch        → 200 Topic
//	DELETE /v1/topics/T                                → 204
//	POST   /v1/topics/T/pause                          → 204, also if nothing changes
//	POST   /v1/topics/T/resume                         → 204, also if nothing changes
//	POST   /v1/topics/T/empty                          → 204
//	POST   /v1/topics/T/partitions  AddPartitions      → 200 Topic
//	GET    /v1/topics/T/verify                           Verification
//	POST   /v1/topics/T/messages    Publish            → 200 Published
//	GET    /v1/topics/T/messages    ?n=&partition=&from= PeekedList, oldest first in each partition
//	GET    /v1/topics/T/channels                         ChannelList
//	POST   /v1/topics/T/channels    CreateChannel      → 201 Channel; 200 Channel if it exists
//	GET    /v1/topics/T/channels/C                       Channel
//	DELETE /v1/topics/T/channels/C                     → 204
//	POST   /v1/topics/T/channels/C/pause               → 204, also if nothing changes
//	POST   /v1/topics/T/channels/C/resume              → 204, also if nothing changes
//	POST   /v1/topics/T/channels/C/empty               → 204
//	POST   /v1/topics/T/channels/C/seek  Seek          → 200 Channel
//	GET    /v1/topics/T/channels/C/messages  ?n=&partition=&from=  PeekedList
//	GET    /v1/partitions                                PartitionList: every topic's, with their topic
//	GET    /v1/topics/T/partitions                       PartitionList
//	GET    /v1/topics/T/partitions/P                     PartitionDetail
//	POST   /v1/topics/T/partitions/P/transfer  TransferLeader → 200 PartitionDetail
//	POST   /v1/topics/T/partitions/P/elect     ElectLeader    → 200 PartitionDetail
//	POST   /v1/topics/T/partitions/P/move      MovePartition  → 200 PartitionDetail; it continues automatically
//	DELETE /v1/topics/T/partitions/P/move                → 200 PartitionDetail; the move is cancelled
//	GET    /v1/cluster                                   Cluster
//	GET    /v1/cluster/health                            Health; the status is 200 whatever the health
//	GET    /v1/cluster/balance                           Balance
//	POST   /v1/cluster/balance      StartBalance       → 200 Balance
//	GET    /v1/cluster/raft                              Raft
//	POST   /v1/cluster/raft/transfer                   → 200 Raft; another voter leads
//	GET    /v1/nodes                                     NodeList
//	GET    /v1/nodes/N                                   NodeDetail
//	POST   /v1/nodes/N/drain         DrainNode         → 200 NodeDetail; it continues automatically
//	POST   /v1/nodes/N/undrain                         → 200 NodeDetail; also cancels a decommission
//	POST   /v1/nodes/N/decommission  DecommissionNode  → 200 NodeDetail; it continues automatically
//	DELETE /v1/nodes/N                                 → 204; refused while it holds a replica
//
// Requests are JSON, and an unknown field is refused. Names in a path are
// percent-encoded if necessary ("#ephemeral" is). Every error is an ErrorAnswer with the status of
// its Code.
package api
