// Package simtest is what the simulations of test/sim have in common: machines'
// disks that lose power, a record of what clients were told, a trace of what
// happened, and seeds that are tried, printed, kept and tried again. It knows
// files and texts, and nothing of brokers, logs or networks.
//
// It is for tests. Everything of it may be used under the virtual time of
// testing/synctest: it waits for nothing.
package simtest
