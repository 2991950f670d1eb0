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
	"sync"
	"time"
)

// maxLookupBytes limits the response of a lookup.
const maxLookupBytes = 8 << 20

// tokenPrefix is the prefix of secrets that are tokens of brokerd. Other secrets are for auth servers.
const tokenPrefix = "brk_"

// getsSecret reports whether a lookup is sent the client's secret: a token only, and not as plain text
// if the connections to brokers are encrypted.
func (c *config) getsSecret(lookup string) bool {
	return strings.HasPrefix(c.secret, tokenPrefix) && (c.tls == nil || strings.HasPrefix(lookup, "https://"))
}

// lookups queries lookup addresses, nsqlookupd's or brokerd's.
type lookups struct{ cfg *config }

// found holds the fields used of the responses to /lookup and /nodes.
type found struct {
	Producers []struct {
		Address string `json:"broadcast_address"`
		Port    int    `json:"tcp_port"`
	} `json:"producers"`
}

// producers returns the host:port of the nodes that lead partitions of a topic; none if the topic
// is unknown. It merges the responses of all lookups.
func (l *lookups) producers(ctx context.Context, topic string) ([]string, error) {
	return l.ask(ctx, "/lookup?topic="+url.QueryEscape(topic))
}

// nodes returns the host:port of all nodes.
func (l *lookups) nodes(ctx context.Context) ([]string, error) { return l.ask(ctx, "/nodes") }

// How much longer than the first response that names nodes, and than the first one that names none, the
// others may take: a lookup that has just started knows no topic.
const (
	slowLookup  = 500 * time.Millisecond
	emptyLookup = 2 * time.Second
)

// patience returns how long to wait for further responses after one. After an empty one it leaves half of
// the time for what the caller does next.
func patience(ctx context.Context, empty bool) time.Duration {
	if !empty {
		return slowLookup
	}
	if end, limited := ctx.Deadline(); limited {
		return min(emptyLookup, time.Until(end)/2)
	}
	return emptyLookup
}

// ask queries all lookups at the same time, so that one that hangs does not prevent the others from
// answering, and merges their responses. It fails only if none answers.
func (l *lookups) ask(ctx context.Context, path string) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found, errs := make([][]string, len(l.cfg.lookups)), make([]error, len(l.cfg.lookups))
	var asking sync.WaitGroup
	for i, base := range l.cfg.lookups {
		asking.Go(func() {
			if found[i], errs[i] = l.askOne(ctx, base+path); errs[i] == nil {
				time.AfterFunc(patience(ctx, len(found[i]) == 0), cancel)
			}
		})
	}
	asking.Wait()
	if !slices.Contains(errs, nil) {
		return nil, errors.Join(errs...)
	}
	var all []string
	for _, a := range slices.Concat(found...) {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all, nil
}

func (l *lookups) askOne(ctx context.Context, at string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/vnd.nsq; version=1.0")
	if l.cfg.getsSecret(at) {
		req.Header.Set("Authorization", "Bearer "+l.cfg.secret)
	}
	res, err := l.cfg.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // the body was only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxLookupBytes))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at, err)
	case res.StatusCode == http.StatusNotFound:
		return nil, nil // the topic is unknown
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
