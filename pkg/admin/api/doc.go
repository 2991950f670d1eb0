// Package api defines the JSON types of brokerd's /v1 administration API, and a Go client. The
// server in pkg/admin and brokerctl both use these types.
//
// It knows names, units and the shape of requests and answers, not how they are carried out: of
// brokerd's packages it imports pkg/units only.
//
// Invariants: fields may be added and are never renamed or given another
// meaning; a list is [] when empty, never null; a duration is a number of milliseconds
// in a field whose name ends in _ms, rounded away from 0, and beside it a string as
// units.ParseDuration reads it, without that end; a request may name either; a time is
// RFC 3339; sizes are bytes; ages and totals say so in their names, and a total counts
// since the process that reports it started.
//
// # Endpoints
//
//	GET    /v1/topics                                    TopicList
//	POST   /v1/topics               CreateTopic        → 201 Topic; the same configuration again: 200 Topic
//	GET    /v1/topics/T                                  Topic
//	PATCH  /v1/topics/T             ConfigPatch        → 200 Topic
//	DELETE /v1/topics/T                                → 204
//	POST   /v1/topics/T/pause                          → 204, also where nothing changes
//	POST   /v1/topics/T/resume                         → 204, also where nothing changes
//	POST   /v1/topics/T/empty                          → 204
//	POST   /v1/topics/T/partitions  AddPartitions      → 200 Topic
//	GET    /v1/topics/T/verify                           Verification
//	POST   /v1/topics/T/messages    Publish            → 200 Published
//	GET    /v1/topics/T/messages    ?n=&partition=&from= PeekedList, oldest first in each partition
//	GET    /v1/topics/T/channels                         ChannelList
//	POST   /v1/topics/T/channels    CreateChannel      → 201 Channel; there already: 200 Channel
//	GET    /v1/topics/T/channels/C                       Channel
//	DELETE /v1/topics/T/channels/C                     → 204
//	POST   /v1/topics/T/channels/C/pause               → 204, also where nothing changes
//	POST   /v1/topics/T/channels/C/resume              → 204, also where nothing changes
//	POST   /v1/topics/T/channels/C/empty               → 204
//	POST   /v1/topics/T/channels/C/seek  Seek          → 200 Channel
//	GET    /v1/topics/T/channels/C/messages  ?n=&partition=&from=  PeekedList
//	GET    /v1/partitions                                PartitionList: every topic's, with their topic
//	GET    /v1/topics/T/partitions                       PartitionList
//	GET    /v1/topics/T/partitions/P                     PartitionDetail
//	POST   /v1/topics/T/partitions/P/transfer  TransferLeader → 200 PartitionDetail
//	POST   /v1/topics/T/partitions/P/elect     ElectLeader    → 200 PartitionDetail
//	POST   /v1/topics/T/partitions/P/move      MovePartition  → 200 PartitionDetail; it continues automatically
//	DELETE /v1/topics/T/partitions/P/move                → 200 PartitionDetail; the move is taken back
//	GET    /v1/cluster                                   Cluster
//	GET    /v1/cluster/health                            Health; the status is 200 whatever the health
//	GET    /v1/cluster/balance                           Balance
//	POST   /v1/cluster/balance      StartBalance       → 200 Balance
//	GET    /v1/cluster/raft                              Raft
//	POST   /v1/cluster/raft/transfer                   → 200 Raft; another voter leads
//	GET    /v1/nodes                                     NodeList
//	GET    /v1/nodes/N                                   NodeDetail
//	POST   /v1/nodes/N/drain         DrainNode         → 200 NodeDetail; it continues automatically
//	POST   /v1/nodes/N/undrain                         → 200 NodeDetail; also takes back a decommission
//	POST   /v1/nodes/N/decommission  DecommissionNode  → 200 NodeDetail; it continues automatically
//	DELETE /v1/nodes/N                                 → 204; refused while it holds a replica
//
// Requests are JSON, and an unknown field is refused. Names in a path are
// percent-encoded where they need it ("#ephemeral" does). Every failure is
// answered with ErrorAnswer and the status of its Code.
package api
