// Package quota says how much a topic may hold on a node, and which publishes are refused
// because of that. It does not know who publishes, and drops nothing itself.
package quota
