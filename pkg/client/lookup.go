package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxLookupBytes bounds the answer of a lookup.
const maxLookupBytes = 8 << 20

// tokenPrefix begins the secrets that are tokens of a brokerd, which lookups of a brokerd take,
// too. Others are for auth servers, and go nowhere else.
const tokenPrefix = "brk_"

// lookups asks lookup addresses, nsqlookupd's or brokerd's, where things are.
type lookups struct{ cfg *config }

// found is the answer to /lookup and /nodes, as far as it counts here.
type found struct {
	Producers []struct {
		Address string `json:"broadcast_address"`
		Port    int    `json:"tcp_port"`
	} `json:"producers"`
}

// producers returns the host:port of the nodes that lead partitions of a topic; none where
// the topic is not known. Several lookups may each know some.
func (l *lookups) producers(ctx context.Context, topic string) ([]string, error) {
	return l.ask(ctx, "/lookup?topic="+url.QueryEscape(topic))
}

// nodes returns the host:port of all nodes.
func (l *lookups) nodes(ctx context.Context) ([]string, error) { return l.ask(ctx, "/nodes") }

// ask joins what the lookups answer. It fails only where none does.
func (l *lookups) ask(ctx context.Context, path string) ([]string, error) {
	var all []string
	var errs []error
	for _, base := range l.cfg.lookups {
		some, err := l.askOne(ctx, base+path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, a := range some {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	if len(errs) == len(l.cfg.lookups) {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

func (l *lookups) askOne(ctx context.Context, at string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/vnd.nsq; version=1.0")
	if strings.HasPrefix(l.cfg.secret, tokenPrefix) {
		req.Header.Set("Authorization", "Bearer "+l.cfg.secret)
	}
	res, err := l.cfg.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxLookupBytes))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at, err)
	case res.StatusCode == http.StatusNotFound:
		return nil, nil // nobody has the topic
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", at, res.Status)
	}
	var f found
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	var all []string
	for _, p := range f.Producers {
		if p.Address != "" && p.Port > 0 {
			all = append(all, net.JoinHostPort(p.Address, strconv.Itoa(p.Port)))
		}
	}
	return all, nil
}
