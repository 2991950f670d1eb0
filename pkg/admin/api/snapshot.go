package api

import "context"

// MetadataSnapshot is the metadata of a cluster as known on one node: nodes, topics, channels and
// their settings, users and rules, and the audit log, without messages and positions. It contains
// hashes of passwords.
type MetadataSnapshot struct {
	Node  string `json:"node"`  // that was asked
	Index uint64 `json:"index"` // of the last change in it
	// Content is the file that brokerctl snapshot save writes, with a checksum of its own.
	Content []byte `json:"content"`
}

// PathSnapshot is the path of a node's MetadataSnapshot.
const PathSnapshot = "/v1/snapshot"

// MetadataSnapshot returns the metadata as the node knows it that answers.
func (o Insights) MetadataSnapshot(ctx context.Context) (*MetadataSnapshot, error) {
	return into[MetadataSnapshot](ctx, o.t, PathSnapshot)
}
