// Package brokertest runs brokers inside a test: one node in one line, or a cluster whose
// nodes are killed, paused and restarted. Nothing is to be installed, and no port is fixed.
//
//	func TestOrders(t *testing.T) {
//		broker := brokertest.Start(t)
//		c, err := client.New([]string{broker.Addr()})
//		...
//	}
//
// It knows how a node is opened and ended in a process that goes on. It refuses to know
// what tests do with it: any client of the NSQ protocol or of HTTP may be used.
//
// Nodes listen on 127.0.0.1 at ports that the system picks, and keep these when they are
// restarted. They end with the test. All of brokerd is there: what a node does not do here
// is what a process does, such as signals and systemd.
//
// Invariants:
//   - A Node that was killed has written nothing since, and told nobody.
//   - A call returns when what it says is so, or fails the test.
package brokertest
