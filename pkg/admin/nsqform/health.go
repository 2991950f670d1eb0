package nsqform

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/health"
)

// The reasons for which /ping and /stats say NOK.
const (
	reasonDiskFailed = "disk_failed"
	reasonDiskFull   = "disk_full"
	reasonLogCorrupt = "log_corrupt"
)

// Health is the word or two that nsqd gives on its health: whether this node's
// disk takes what is written. ready is what keeps the node from serving.
func Health(ready []health.Reason) string {
	for _, r := range ready {
		switch r.Code {
		case reasonDiskFailed, reasonDiskFull, reasonLogCorrupt:
			return "NOK - " + r.What
		}
	}
	return "OK"
}

// Ping says that the process answers and that its disk takes what is written.
func Ping(ready func() []health.Reason) Endpoint {
	return func(*http.Request) (any, error) {
		if h := Health(ready()); h != "OK" {
			return nil, &Error{http.StatusInternalServerError, h}
		}
		return "OK", nil
	}
}
