package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Diagnose returns diagnostic data of a node's process.
type Diagnose func() api.Diagnosis

func (d Diagnose) route(t *API) {
	t.handle("GET "+api.PathDiagnosis, func(*http.Request) (answer, error) {
		if d == nil {
			return answer{}, api.Errorf(failure.NotFound, "this node provides no diagnosis")
		}
		return success(d())
	})
}
