package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Paths of the probes.
const (
	ProbeReady   = "/readyz"   // the node serves as a member of a quorum
	ProbeLive    = "/livez"    // the process is not stuck
	ProbeStarted = "/startupz" // recovery is done
)

const (
	maxProbe     = 1 << 20          // bytes that are read of a probe's answer
	probeTimeout = 30 * time.Second // of a client that was not given
)

// Probe is a node's answer to a health probe.
type Probe struct {
	OK      bool     `json:"ok"`
	Reasons []Reason `json:"reasons"`
}

// AskProbe probes one node at one of the paths above. A nil client means one without
// certificates. An answer of "not ready" is not an error; no answer is one with failure.Unavailable.
func AskProbe(ctx context.Context, over *http.Client, address, path string) (*Probe, error) {
	if over == nil {
		over = &http.Client{Timeout: probeTimeout}
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s%s: %w", address, path, err)
	}
	began := time.Now()
	res, err := over.Do(req)
	if err != nil {
		return nil, Errorf(failure.Unavailable, "no answer from %s: %w", req.URL.Host, inTime(err, began))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxProbe))
	if err != nil {
		return nil, Errorf(failure.Unavailable, "no complete answer from %s: %w", req.URL.Host, inTime(err, began))
	}
	var p Probe
	if err := json.Unmarshal(text, &p); err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusServiceUnavailable {
		return nil, fmt.Errorf("%s%s answered %s, not as a brokerd does", address, path, res.Status)
	}
	return &p, nil
}
