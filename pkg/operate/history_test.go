package operate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// TestChannelWithoutSavedPositionIsUnchanged: the operator learns what happened to the channel, not what happened to
// the copy of its position.
func TestChannelWithoutSavedPositionIsUnchanged(t *testing.T) {
	for _, x := range []struct {
		verb, says string
		err        error
		want       *failure.Kind
	}{
		{SavedDelete, "channel orders/bill not deleted, it keeps its position and its messages", failure.CommandUnknown, failure.NotSaved},
		{savedEmpty, "channel orders/bill not emptied, it keeps its position and its messages", failure.Behind, failure.NotSaved},
		{"seek", "channel orders/bill not moved", failure.CommandUnknown, failure.NotSaved},
		{SavedDelete, "channel orders/bill not deleted", failure.NotController, failure.NotController},
		{SavedDelete, "channel orders/bill not deleted", fmt.Errorf("%w on node n1", failure.MetadataDiskFull), failure.MetadataDiskFull},
	} {
		m := operatorMove{topic: &meta.Topic{Name: "orders"}, channel: "bill", verb: x.verb}
		err := m.unsaved(x.err)
		if fate.Of(err) != fate.Refused || failure.Of(err) != x.want || !strings.HasPrefix(err.Error(), x.says) || !strings.Contains(err.Error(), x.err.Error()) {
			t.Errorf("%s, %v: %v, %v", x.verb, x.err, err, fate.Of(err))
		}
	}
}
