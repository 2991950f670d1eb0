package brokertest_test

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/brokertest"
)

// A test starts a broker with one call; it stops with the test.
func ExampleStart() {
	_ = func(t *testing.T) { // func TestOrders(t *testing.T) {
		broker := brokertest.Start(t)
		t.Log("NSQ at", broker.Addr(), "and HTTP at", broker.URL())
	}
	// Output:
}

// A cluster is there to lose nodes.
func ExampleCluster() {
	_ = func(t *testing.T) { // func TestOrdersSurvive(t *testing.T) {
		nodes := brokertest.Cluster(t, 3)
		nodes[0].Kill()
		// ... the others serve
		nodes[0].Restart()
	}
	// Output:
}
