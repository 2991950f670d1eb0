// Package brokertest runs brokers inside a test: one node in one line, or a cluster whose nodes
// can be killed, paused and restarted. It needs no installation and no fixed port.
//
//	func TestOrders(t *testing.T) {
//		broker := brokertest.Start(t)
//		c, err := client.New([]string{broker.Addr()})
//		...
//	}
//
// It opens and stops nodes within one process. Tests talk to them with any NSQ or HTTP client.
//
// Nodes listen on 127.0.0.1 on ports picked by the system and keep them across restarts: a restart
// waits while another program has one of them. They stop with the test. Everything of brokerd is included except what belongs to a process, such
// as signals and systemd.
//
// Invariants:
//   - A killed Node writes nothing and sends nothing after Kill.
//   - A method returns once its effect is complete, or fails the test.
package brokertest
