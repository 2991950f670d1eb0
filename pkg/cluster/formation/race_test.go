//go:build race

package formation

// randomWorlds is smaller where everything takes ten times as long.
const randomWorlds = 20
