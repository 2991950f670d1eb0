//go:build !race

package formation

// randomWorlds is how many groups of nodes are put together at random.
const randomWorlds = 60
