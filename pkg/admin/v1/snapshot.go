package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Snapshot returns the metadata as this node knows it.
type Snapshot func() (api.MetadataSnapshot, error)

func (s Snapshot) route(t *API) {
	t.handle("GET "+api.PathSnapshot, func(*http.Request) (answer, error) {
		if s == nil {
			return answer{}, api.Errorf(failure.NotFound, "this node provides no snapshot")
		}
		out, err := s()
		if err != nil {
			return answer{}, err
		}
		return success(out)
	})
}
