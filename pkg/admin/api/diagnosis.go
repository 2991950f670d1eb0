package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Diagnosis describes the process of one node, for debugging. It contains neither messages nor
// secrets: user names, passwords and queries are removed from URLs in the settings.
type Diagnosis struct {
	Node       string    `json:"node"`
	Version    string    `json:"version"`
	Build      string    `json:"build"`
	Go         string    `json:"go"`
	OS         string    `json:"os"`
	Arch       string    `json:"arch"`
	Processors int       `json:"processors"` // that it may use
	Now        time.Time `json:"now"`        // by the clock of the node
	Started    time.Time `json:"started"`
	UptimeMS   int64     `json:"uptime_ms"`
	Goroutines int       `json:"goroutines"`
	HeapBytes  uint64    `json:"heap_bytes"`
	// Config has every setting, as TOML, with its source.
	Config string `json:"config"`
	// Stacks are all goroutines, those with the same stack together.
	Stacks string `json:"stacks"`
}

// PathDiagnosis is the path of a node's Diagnosis.
const PathDiagnosis = "/v1/diagnosis"

// Fetch gets a path such as /metrics from one node and returns up to max bytes of the answer, and
// whether there were more. A status other than 200 is an error.
func Fetch(ctx context.Context, over *http.Client, address, path string, max int) (content []byte, more bool, err error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	target := strings.TrimSuffix(address, "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, false, fmt.Errorf("ask %s: %w", target, err)
	}
	began := time.Now()
	res, err := over.Do(req)
	if err != nil {
		return nil, false, fmt.Errorf("ask %s: %w", target, inTime(err, began))
	}
	defer res.Body.Close()
	content, err = io.ReadAll(io.LimitReader(res.Body, int64(max)+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("ask %s: %w", target, inTime(err, began))
	case res.StatusCode != http.StatusOK:
		return nil, false, fmt.Errorf("%s answered %s: %.200s", target, res.Status, strings.TrimSpace(string(content)))
	case len(content) > max:
		return content[:max], true, nil
	}
	return content, false, nil
}
