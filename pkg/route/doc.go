// Package route says to which partitions of a topic messages go that name none, and
// puts together what became of those that go to several. It does not know who leads
// partitions, or whether they can be written to.
package route
