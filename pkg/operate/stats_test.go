package operate

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestUnappliedPartitionIsNotCounted(t *testing.T) {
	all := []*host.Led{{Index: 0}, {Index: 1}}
	led := configured(all, &meta.Topic{Partitions: make([]meta.Partition, 1)})
	if len(led) != 1 || led[0] != all[0] {
		t.Errorf("counted %v", led)
	}
	if len(all) != 2 || all[1] == nil {
		t.Errorf("the host's list is %v", all)
	}
}
