// Package meta is the cluster metadata as a pure value.
package meta
