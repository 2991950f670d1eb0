package host

import (
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/stall"
)

// Reasons are the health findings about this node's replicas, in addition to those of NotReady.
func (n *Host) Reasons(now time.Time) []health.Reason {
	var reasons []health.Reason
	if k, _ := n.damage.Counts(); k > 0 {
		reasons = append(reasons, health.Reason{Code: "log_corrupt", Count: k, What: "log ranges are corrupt on disk; repaired from an in-sync replica if there is one, otherwise the intact messages are served"})
	}
	if k := int(n.strays.Load()); k > 0 {
		reasons = append(reasons, health.Reason{Code: "stray_data", Count: k, What: "directories of topics unknown to the metadata, of another cluster or of another node; the metadata may have been lost, or data directories exchanged"})
	}
	if used, most, _ := n.roles.budget.Usage(); 2*used >= most {
		reasons = append(reasons, health.Reason{Code: "uncommitted_budget", Count: 1, What: fmt.Sprintf(
			"%d of %d bytes of uncommitted data in use: publishers to slow partitions wait or are refused", used, most)})
	}
	return slices.Concat(reasons, n.dirs.KeptReasons(n.redo.Lacks()), n.Quarantine.reasons(), n.Stalls.Reasons(now, stall.Role, stall.Follower, stall.Slow))
}

// NotReady are the findings that prevent this node from serving all its replicas.
func (n *Host) NotReady(now time.Time) []health.Reason {
	var reasons []health.Reason
	if err := n.life.failed.Load(); err != nil {
		reasons = append(reasons, health.Reason{Code: "disk_failed", Count: 1, What: (*err).Error()})
	}
	if short := n.Disk.Shortage(); short != "" {
		reasons = append(reasons, health.Reason{Code: "disk_full", Count: 1, What: short})
	}
	if full := n.o.Meta.Members().FullDisk(); full != "" {
		reasons = append(reasons, health.Reason{Code: "metadata_disk_full", Count: 1, What: "metadata disk full, nothing can be created or altered while this node leads the metadata: " + full})
	}
	reasons = append(reasons, n.Stalls.Reasons(now, stall.Lead)...)
	if n.life.exiting.Load() {
		reasons = append(reasons, health.Reason{Code: "exiting", Count: 1, What: "node is shutting down"})
	}
	return reasons
}
