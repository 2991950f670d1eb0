//go:build race

package formation

// randomWorlds is smaller under the race detector, which is ten times slower.
const randomWorlds = 20
