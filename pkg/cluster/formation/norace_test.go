//go:build !race

package formation

// randomWorlds is the number of random groups of nodes.
const randomWorlds = 60
