// Package topic gives meaning to one replica of a partition.
package topic
