package operate

import (
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestFormingClusterNamesTheNodesAwaited(t *testing.T) {
	r, ok := forming(func() []meta.NodeID { return []meta.NodeID{"n2", "n3"} })
	if !ok || r.Count != 2 || !strings.HasSuffix(r.What, "waits for nodes to join: n2 n3") || health.GravityOf(r.Code) != health.Degrading {
		t.Errorf("got %+v, %v", r, ok)
	}
	for _, none := range []func() []meta.NodeID{nil, func() []meta.NodeID { return nil }} {
		if r, ok := forming(none); ok {
			t.Errorf("a formed cluster: %+v", r)
		}
	}
}
