package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeLookup answers the requests of lookups.
type fakeLookup func(*http.Request) (*http.Response, error)

func (f fakeLookup) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f fakeLookup) http() Option { return WithHTTPClient(&http.Client{Transport: f}) }

// named is a response that names a node.
func named(host string) (*http.Response, error) {
	text := fmt.Sprintf(`{"producers":[{"broadcast_address":%q,"tcp_port":1}]}`, host)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}, nil
}

var errNoLookup = errors.New("no lookup")

// serves is the script of a broker that serves a consumer until end is closed.
func serves(served chan<- time.Time, end <-chan struct{}) func(peer) {
	return func(p peer) {
		p.subscribed("RDY 64\n")
		served <- time.Now()
		if end != nil {
			<-end
			return
		}
		p.expect("RDY 0\nCLS\n")
		p.send(0, "CLOSE_WAIT")
		p.drain()
	}
}

// A consumer that knows only lookups asks again as soon as its node is gone, whatever the lookup
// has answered by then.
func TestConsumerFollowsLookup(t *testing.T) {
	for name, next := range map[string]string{"to another node": "b", "to the same node, although it does not answer": "a"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				served, end := make(chan time.Time, 2), make(chan struct{})
				scripts := map[string][]func(peer){"a:1": {serves(served, end)}}
				scripts[next+":1"] = append(scripts[next+":1"], serves(served, nil))
				f := newFakeNet(t, scripts)
				var began time.Time
				var ended atomic.Bool
				lookup := fakeLookup(func(*http.Request) (*http.Response, error) {
					switch {
					case !ended.Load():
						return named("a")
					case next == "a" && time.Since(began) < time.Minute:
						return nil, errNoLookup
					}
					return named(next)
				})
				c := f.client([]string{"http://lookup"}, lookup.http(), WithRefresh(time.Hour))
				if _, err := c.Subscribe("t", "c"); err != nil {
					t.Fatal(err)
				}
				<-served
				began = time.Now()
				ended.Store(true)
				close(end)
				if at := <-served; at.Sub(began) > 5*time.Second {
					t.Errorf("served again after %v", at.Sub(began))
				}
				f.end(c)
			})
		})
	}
}

func TestConsumerStartsBeforeItsLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := make(chan time.Time, 1)
		f := newFakeNet(t, map[string][]func(peer){"a:1": {serves(served, nil)}})
		began := time.Now()
		lookup := fakeLookup(func(*http.Request) (*http.Response, error) {
			if time.Since(began) < 3*time.Second {
				return nil, errNoLookup
			}
			return named("a")
		})
		c := f.client([]string{"http://lookup"}, lookup.http(), WithRefresh(time.Hour))
		if _, err := c.Subscribe("t", "c"); err != nil {
			t.Fatal(err)
		}
		if at := <-served; at.Sub(began) > 10*time.Second {
			t.Errorf("served after %v", at.Sub(began))
		}
		f.end(c)
	})
}

// A lookup on a machine that is down accepts no connection and refuses none.
func TestHangingLookupDoesNotHideTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookup := fakeLookup(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "hangs" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return named(r.URL.Host)
		})
		l := &lookups{cfg: &config{lookups: []string{"http://hangs", "http://b", "http://c"}, http: &http.Client{Transport: lookup}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if found, err := l.producers(ctx, "t"); err != nil || fmt.Sprint(found) != "[b:1 c:1]" || time.Since(began) > time.Second {
			t.Errorf("%v, %v after %v", found, err, time.Since(began))
		}
	})
}

// A lookup that has just started knows no topic, and answers before those that do.
func TestEmptyLookupDoesNotHideTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookup := fakeLookup(func(r *http.Request) (*http.Response, error) {
			switch r.URL.Host {
			case "empty":
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
			case "slow":
				select {
				case <-time.After(time.Second):
					return named("b")
				case <-r.Context().Done():
				}
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		for _, tc := range []struct {
			other, want string
			limit, most time.Duration
		}{{"http://slow", "[b:1]", time.Minute, time.Second}, {"http://hangs", "[]", time.Minute, emptyLookup}, {"http://hangs", "[]", 24 * time.Hour, emptyLookup}, {"http://hangs", "[]", 0, emptyLookup}} {
			l := &lookups{cfg: &config{lookups: []string{"http://empty", tc.other}, http: &http.Client{Transport: lookup}}}
			ctx, cancel := context.WithCancel(t.Context())
			if tc.limit > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), tc.limit)
			}
			began := time.Now()
			found, err := l.producers(ctx, "t")
			cancel()
			if err != nil || fmt.Sprint(found) != tc.want || time.Since(began) > tc.most {
				t.Errorf("%s: %v, %v after %v", tc.other, found, err, time.Since(began))
			}
		}
	})
}

// A node whose machine is off, and a lookup that does not answer, delay a publish only a little while
// another node accepts it.
func TestHangingNodeDelaysNoPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) {
			p.greet("OK")
			p.expect("PUB t\n")
			p.body()
			p.ok()
			p.drain()
		})
		hangs := func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "off") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return f.dial(ctx, network, address)
		}
		lookup := fakeLookup(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c := f.client([]string{"off1:1", "off2:1", node, "http://lookup"}, WithDialer(hangs), lookup.http())
		for i, l := range c.router.any { // the node that accepts is tried last
			if l.address == node {
				last := len(c.router.any) - 1
				c.router.any[i], c.router.any[last] = c.router.any[last], l
			}
		}
		began := time.Now()
		if err := c.Publish(t.Context(), "t", []byte("x")); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > DefaultDialTimeout/2+2*nextDial {
			t.Errorf("published after %v", took)
		}
		f.end(c)
	})
}

// TestTokenIsNotSentAsPlainText: a lookup without TLS gets no token of a client whose connections have TLS.
func TestTokenIsNotSentAsPlainText(t *testing.T) {
	for _, tc := range []struct {
		secret, lookup string
		tls            *tls.Config
		want           string
	}{
		{"brk_1", "http://l", nil, "Bearer brk_1"},
		{"brk_1", "http://l", &tls.Config{}, ""},
		{"brk_1", "https://l", &tls.Config{}, "Bearer brk_1"},
		{"other", "https://l", nil, ""},
	} {
		sent := "not asked"
		lookup := fakeLookup(func(r *http.Request) (*http.Response, error) {
			sent = r.Header.Get("Authorization")
			return named("a")
		})
		l := lookups{&config{secret: tc.secret, tls: tc.tls, lookups: []string{tc.lookup}, http: &http.Client{Transport: lookup}}}
		if _, err := l.nodes(t.Context()); err != nil || sent != tc.want {
			t.Errorf("secret %s, TLS %v, %s: sent %q, %v; want %q", tc.secret, tc.tls != nil, tc.lookup, sent, err, tc.want)
		}
	}
}
