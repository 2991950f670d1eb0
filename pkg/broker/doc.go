// Package broker is one node wired together.
package broker
