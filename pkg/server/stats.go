package server

import (
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// Ending is the reason why a connection ended.
type Ending uint8

// The endings.
const (
	EndClient    Ending = iota // the client closed it
	EndProtocol                // the server answered with a fatal error
	EndTimeout                 // the client sent nothing, or read nothing, for too long
	EndNetwork                 // the socket failed
	EndShutdown                // this node is shutting down
	EndBroker                  // the broker ended it, for example because its channel was deleted
	EndHandshake               // TLS failed
	EndLimit                   // too many connections
	// EndingCount is the number of endings, for tables that count by ending.
	EndingCount
)

var endings = [EndingCount]string{
	EndClient: "client", EndProtocol: "protocol", EndTimeout: "timeout", EndNetwork: "network",
	EndShutdown: "shutdown", EndBroker: "broker", EndHandshake: "handshake", EndLimit: "limit",
}

// String returns the ending's name, fit for a metric's label.
func (e Ending) String() string {
	if e < EndingCount {
		return endings[e]
	}
	return "unknown"
}

// Stats are a Server's counters since it was created, and its current connections.
type Stats struct {
	Open, OpenTLS, OpenConsumers int64 // connections now
	Connections                  uint64
	Ended                        [EndingCount]uint64
	Commands                     [nsq.VerbCount]uint64
	Errors                       [failure.WireCount]uint64 // error frames by code
	BytesIn, BytesOut            uint64                    // on the socket: compressed, encrypted
	AuthFailures                 uint64
}

type counters struct {
	open, openTLS, openConsumers atomic.Int64
	connections                  atomic.Uint64
	ended                        [EndingCount]atomic.Uint64
	commands                     [nsq.VerbCount]atomic.Uint64
	errors                       [failure.WireCount]atomic.Uint64
	bytesIn, bytesOut            atomic.Uint64
	authFailures                 atomic.Uint64
}

func (c *counters) stats() Stats {
	s := Stats{
		Open: c.open.Load(), OpenTLS: c.openTLS.Load(), OpenConsumers: c.openConsumers.Load(),
		Connections: c.connections.Load(), BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(),
		AuthFailures: c.authFailures.Load(),
	}
	for i := range s.Ended {
		s.Ended[i] = c.ended[i].Load()
	}
	for i := range s.Commands {
		s.Commands[i] = c.commands[i].Load()
	}
	for i := range s.Errors {
		s.Errors[i] = c.errors[i].Load()
	}
	return s
}
