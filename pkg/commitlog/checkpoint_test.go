package commitlog

import (
	"bytes"
	"testing"
)

// TestADamagedCheckpointIsRefused: no bit of it may change unnoticed.
func TestADamagedCheckpointIsRefused(t *testing.T) {
	good := checkpoint{start: 1, durable: 40, durablePos: 4000, committed: 39, epoch: 3, before: 2}.encode()
	if _, err := decodeCheckpoint(good); err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if c, err := decodeCheckpoint(bad); err == nil {
			t.Errorf("with bit %d changed it reads as %+v", bit, c)
		}
	}
}
