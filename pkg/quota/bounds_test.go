package quota

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
)

// A topic that drops its oldest messages is reduced to the smaller of its two limits.
func TestDroppingTopicIsReducedToItsShare(t *testing.T) {
	c := &meta.TopicConfig{Partitions: 1, MaxBytes: 100, RetentionBytes: 1000, OnFull: meta.OnFullDrop}
	if limit, share := Bounds(c); limit != share || share != 100 {
		t.Errorf("limit %d, share %d", limit, share)
	}
}
