// Package quota limits how much a topic may hold on a node and refuses publishes beyond that.
// It does not know the publisher, and deletes nothing itself.
package quota
