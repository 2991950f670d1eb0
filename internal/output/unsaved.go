package output

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Unsaved says what the partitions in which the position of a deleted channel was not saved mean for a restore.
func Unsaved(channel string, v *api.SavedPosition) string {
	if len(v.Partitions) == 0 {
		return fmt.Sprintf("the leader of no partition responded: no position of %s is saved, and channel restore cannot restore it; create it again, and move it with channel seek", channel)
	}
	return fmt.Sprintf("the leaders of partitions %v did not respond: the position of %s there is not saved, and channel restore begins at their end; then move it with channel seek", v.Unsaved, channel)
}
