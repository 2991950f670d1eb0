// Package positions stores the channel positions of one partition beside its log, and keeps those of
// its replicas alike. It knows which messages each channel has finished; it does not know the
// messages, consumers, or the network.
//
// On the leader, a Keeper stores what a Source says of the channels and shares it: periodic
// snapshots, updates where a snapshot would be large, and each message finished by an ordered
// channel immediately. On a follower, a Standby stores what it receives.
//
// DESIGN.md numbers the invariants and says where to start.
package positions
