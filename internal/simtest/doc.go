// Package simtest holds what the simulations of test/sim share: disks that lose power, a history of
// the answers to clients, an event trace, and seeds that are tried, printed, stored and replayed.
// It knows nothing of brokers, logs or networks.
//
// It is for tests only and works under the virtual time of testing/synctest: nothing in it waits.
package simtest
