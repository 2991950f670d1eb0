package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// Environment variables for this program under the name nsqd, with which it enables access control.
const (
	tokenVariable  = "CONFORMANCE_TOKEN"  // the file to write the clients' token to
	topicsVariable = "CONFORMANCE_TOPICS" // the pattern of the topics that the clients may use
)

// withAccess returns e for a run with access control on. The broker writes the token that
// clients must send with AUTH to the file e.token before it serves HTTP, whose requests need none: an
// HTTP client of the suites cannot send any.
func withAccess(e env, topics string) env {
	e.scratch = filepath.Join(e.scratch, "access")
	e.broker, e.token, e.topics = steps.Need(os.Executable()), filepath.Join(e.scratch, "token"), topics
	steps.Must(os.MkdirAll(e.scratch, 0o755))
	return e
}

// variables returns what a broker of e needs in its environment.
func (e env) variables() []string {
	if e.token == "" {
		return nil
	}
	return []string{tokenVariable + "=" + e.token, topicsVariable + "=" + e.topics}
}

// secret returns the token of the broker that serves; "" while access control is off.
func (e env) secret() (string, error) {
	if e.token == "" {
		return "", nil
	}
	text, err := os.ReadFile(e.token)
	return string(text), err
}

// enableAccess enables access control at a node. It returns the token of a user who may publish to
// and subscribe to topics, and the token of one who may do all but change users.
func enableAccess(ctx context.Context, n *nodes.Node, topics string) (clients, tools string) {
	defer func() { n.Token = "" }()
	n.Token = firstAdministrator(ctx, n)
	type rule map[string]string
	users := map[string][]rule{
		"root":    {{"right": "admin"}},
		"clients": {{"right": "publish", "topic": topics}, {"right": "subscribe", "topic": topics, "channel": "*"}},
		"tools":   {{"right": "read"}, {"right": "publish", "topic": "*"}, {"right": "manage", "topic": "*"}},
	}
	tokens := map[string]string{}
	for _, name := range []string{"root", "clients", "tools"} {
		steps.Must(n.Ask(ctx, http.MethodPost, "/v1/access/users", map[string]any{"name": name, "rules": users[name]}, nil))
		var token struct{ Secret string }
		steps.Must(n.Ask(ctx, http.MethodPost, "/v1/access/users/"+name+"/tokens", map[string]any{}, &token))
		tokens[name] = token.Secret
		n.Token = tokens["root"] // the first administrator's is worth nothing from now on
	}
	steps.Must(n.Ask(ctx, http.MethodPost, "/v1/access/enable", map[string]any{"new_cluster_secret": true}, nil))
	n.Token = ""
	var refused *nodes.StatusError
	if err := n.Ask(ctx, http.MethodGet, "/v1/topics", nil, nil); !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		steps.Must(errors.Join(errors.New("access control is not on: a request without a token is not refused"), err))
	}
	return tokens["clients"], tokens["tools"]
}

// firstAdministrator waits for the secret with which the node lets create the first administrator.
func firstAdministrator(ctx context.Context, n *nodes.Node) (secret string) {
	steps.Must(nodes.Await(ctx, func() error {
		text, err := os.ReadFile(filepath.Join(n.Data(), "first-administrator"))
		secret = strings.TrimSpace(string(text))
		return err
	}))
	return secret
}

// authenticated serves HTTP in front of an address and sends each request on with a token.
func authenticated(l net.Listener, address, token string) *http.Server {
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: address})
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}}
	s := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }() // it ends when it is closed
	return s
}
