// Package route picks the partitions of messages published without one, and combines the
// results of publishes to several. It does not know who leads partitions or whether they accept
// publishes.
package route
