// Package position is what is stored of a channel on one partition, and sent to its replicas: its
// Position, a Change of one since an earlier one, and their encoding. It also packs deferred
// messages, of which a channel may have millions. It decides nothing: see pkg/channel.
//
// A Position is the floor, below which everything is finished, and lists of the messages beyond it:
// finished, deferred and attempted. All values are pure.
package position
