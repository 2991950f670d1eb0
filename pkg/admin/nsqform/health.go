package nsqform

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/health"
)

// The reasons for which /ping and /stats answer NOK.
const (
	reasonDiskFailed = "disk_failed"
	reasonDiskFull   = "disk_full"
	reasonLogCorrupt = "log_corrupt"
)

// Health returns nsqd's short text about its health: whether this node's disk accepts writes.
// ready are the reasons why the node does not serve.
func Health(ready []health.Reason) string {
	for _, r := range ready {
		switch r.Code {
		case reasonDiskFailed, reasonDiskFull, reasonLogCorrupt:
			return "NOK - " + r.What
		}
	}
	return "OK"
}

// Ping reports that the process responds and that its disk accepts writes.
func Ping(ready func() []health.Reason) Endpoint {
	return func(*http.Request) (any, error) {
		if h := Health(ready()); h != "OK" {
			return nil, &Error{http.StatusInternalServerError, h}
		}
		return "OK", nil
	}
}
