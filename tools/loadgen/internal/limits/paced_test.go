package limits

import (
	"testing"
	"time"
)

func TestEveryPacedRecordIsMeasured(t *testing.T) {
	l, err := paced{files: 3, rate: 500}.run(t.TempDir(), 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if l.Value <= 0 || l.P50 <= 0 || l.P99 < l.P50 || l.Max < l.P99 {
		t.Errorf("%+v", l)
	}
}
