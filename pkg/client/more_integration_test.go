package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/certtest"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/brokertest"
	"github.com/brokerd/brokerd/pkg/client"
)

// createTopic creates a topic through /v1.
func createTopic(t *testing.T, b *brokertest.Node, spec string) {
	t.Helper()
	res, err := http.Post(b.URL()+"/v1/topics", "application/json", strings.NewReader(spec))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode >= 300 {
		t.Fatalf("create topic: %s %s %v", res.Status, text, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	c := certtest.Make(t, x509.Certificate{Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, nil)
	return c, certtest.Pool(c)
}

func TestConnectionsAreUpgradedAndAuthorized(t *testing.T) {
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		permissions := `["publish","subscribe"]`
		if r.URL.Query().Get("secret") != "open sesame" {
			permissions = `["subscribe"]`
		}
		fmt.Fprintf(w, `{"ttl":3600,"identity":"me","authorizations":[{"topic":".*","channels":[".*"],"permissions":%s}]}`, permissions)
	}))
	defer auth.Close()
	cert, roots := selfSigned(t)
	b := brokertest.Start(t, brokertest.InMemory(),
		brokertest.TLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}),
		brokertest.Set("auth-http-address", auth.Listener.Addr().String()))
	secure := client.WithTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	for _, with := range []client.Option{client.WithSnappy(), client.WithDeflate(1), client.WithClientID("plain")} {
		ctx := soon(t)
		c := newClient(t, []string{b.Addr()}, secure, with, client.WithSecret("open sesame"))
		if err := c.Publish(ctx, "t", []byte(strings.Repeat("x", 100_000))); err != nil {
			t.Fatal(err)
		}
		if got := collect(ctx, t, c, "t", 1); len(got[0]) != 100_000 {
			t.Errorf("%d bytes", len(got[0]))
		}
	}
	ctx := soon(t)
	err := newClient(t, []string{b.Addr()}, secure, client.WithSecret("wrong")).Publish(ctx, "t", []byte("x"))
	if said, ok := errors.AsType[*client.ServerError](err); !ok || said.Code != "E_UNAUTHORIZED" || !errors.Is(err, client.ErrRefused) {
		t.Errorf("a wrong secret: %v", err)
	}
	stranger := client.WithTLS(&tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12})
	err = newClient(t, []string{b.Addr()}, stranger, client.WithPublishTimeout(time.Second)).Publish(ctx, "t", []byte("x"))
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || !errors.Is(err, client.ErrRefused) {
		t.Errorf("a certificate that nobody knows: %v", err)
	}
}

// TestPausedNodeIsReplaced pauses the node that the client publishes to.
func TestPausedNodeIsReplaced(t *testing.T) {
	ctx := soon(t)
	nodes := brokertest.Cluster(t, 3, brokertest.InMemory())
	at := make(chan string, 99)
	c := newClient(t, nodes.Addrs(), client.WithHeartbeat(time.Second), client.WithHooks(client.Hooks{Connected: func(a string) { at <- a }}))
	if err := c.Publish(ctx, "t", []byte("a")); err != nil {
		t.Fatal(err)
	}
	address := <-at
	hung := nodes[slices.Index(nodes.Addrs(), address)]
	hung.Pause()
	err := c.Publish(ctx, "t", []byte("b"))
	if !errors.Is(err, client.ErrUncertain) || !errors.Is(err, client.ErrStalled) {
		t.Errorf("published to a node that hangs: %v", err)
	}
	if err := c.Publish(ctx, "t", []byte("c")); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if next := <-at; next == address {
		t.Errorf("still at %s", next)
	}
	hung.Resume()
}

func TestHeadersAreDelivered(t *testing.T) {
	ctx, b := soon(t), brokertest.Start(t, brokertest.InMemory())
	createTopic(t, b, `{"name":"t","config":{"ext":true}}`)
	c := newClient(t, []string{b.Addr()})
	if err := c.Send(ctx, client.Outgoing{Topic: "t", Body: []byte("x"), Key: "ann", Headers: map[string]string{"type": "order", "traceparent": "00-1-2-01"}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(ctx, "t", []byte("plain")); err != nil {
		t.Fatal(err)
	}
	x, err := c.Subscribe("t", "readers", client.WithHeaders(), client.WithMaxInFlight(1))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for m := range x.Messages(ctx) {
		value, has := m.HeaderValue("type")
		got = append(got, fmt.Sprint(string(m.Body), " ", value, " ", has, " ", m.Key(), " ", len(m.ID.String())))
		if err := m.Finish(); err != nil {
			t.Error(err)
		}
		if len(got) == 2 {
			break
		}
	}
	if want := []string{"x order true ann 16", "plain  false  16"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q; %v", got, want, x.Err())
	}
	err = c.Send(ctx, client.Outgoing{Topic: "missing", Body: []byte("x"), Headers: map[string]string{"a": "b"}})
	if said, ok := errors.AsType[*client.ServerError](err); !ok || said.Code != "E_TOPIC_NOT_EXIST" || !errors.Is(err, client.ErrRefused) {
		t.Errorf("to a topic that there is not: %v", err)
	}
	if err := c.Publish(ctx, "other", []byte("x")); err != nil {
		t.Fatal(err)
	}
	err = c.Send(ctx, client.Outgoing{Topic: "other", Body: []byte("x"), Headers: map[string]string{"a": "b"}})
	if said, ok := errors.AsType[*client.ServerError](err); !ok || said.Code != "E_EXT_NOT_SUPPORT" || !errors.Is(err, client.ErrRefused) {
		t.Errorf("to a topic that is not extended: %v", err)
	}
	if x, err = c.Subscribe("other", "readers", client.WithHeaders()); err != nil {
		t.Fatal(err)
	}
	err = x.Run(ctx, func(context.Context, *client.Message) error { return nil })
	if said, ok := errors.AsType[*client.ServerError](err); !ok || said.Code != "E_SUB_EXTEND_FORBIDDON" {
		t.Errorf("a consumer with headers of a topic that is not extended: %v", err)
	}
}

// storedIn returns the number of messages of a topic.
func storedIn(t *testing.T, b *brokertest.Node, topic string) (total uint64, perPartition []uint64) {
	t.Helper()
	res, err := http.Get(b.URL() + "/v1/topics/" + topic)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var about api.Topic
	if err := json.NewDecoder(res.Body).Decode(&about); err != nil {
		t.Fatal(err)
	}
	for _, p := range about.Partitions {
		total += p.CommittedEnd
		perPartition = append(perPartition, p.CommittedEnd)
	}
	return total, perPartition
}

func TestIdIsStoredOnce(t *testing.T) {
	ctx, b := soon(t), brokertest.Start(t, brokertest.InMemory())
	createTopic(t, b, `{"name":"t"}`)
	c := newClient(t, []string{b.Addr()}, client.WithDedup())
	for range 3 {
		if err := c.Send(ctx, client.Outgoing{Topic: "t", Body: []byte("x"), DedupID: "order-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Publish(ctx, "t", []byte("y")); err != nil {
		t.Fatal(err)
	}
	if err := c.PublishBatch(ctx, "t", [][]byte{[]byte("y"), []byte("y")}); err != nil {
		t.Fatal(err)
	}
	if n, _ := storedIn(t, b, "t"); n != 4 {
		t.Errorf("%d messages are stored, want the order once and three others", n)
	}
}

func TestKeyChoosesThePartition(t *testing.T) {
	ctx, b := soon(t), brokertest.Start(t, brokertest.InMemory())
	createTopic(t, b, `{"name":"t","config":{"partitions":4}}`)
	c := newClient(t, []string{b.Addr()})
	for i := range 12 {
		if err := c.Send(ctx, client.Outgoing{Topic: "t", Body: fmt.Append(nil, i), Key: "customer-7", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if _, per := storedIn(t, b, "t"); !slices.Contains(per, 12) {
		t.Errorf("messages of one key are in several partitions: %v", per)
	}
}

// A key chooses the partition of an ordered topic as well, which takes no message without a key or a partition.
func TestKeyChoosesThePartitionOfAnOrderedTopic(t *testing.T) {
	ctx, b := soon(t), brokertest.Start(t, brokertest.InMemory())
	createTopic(t, b, `{"name":"t","config":{"partitions":4,"ordered":true}}`)
	c := newClient(t, []string{b.Addr()})
	if err := c.Send(ctx, client.Outgoing{Topic: "t", Body: []byte("x"), Key: "k"}); err != nil {
		t.Error(err)
	}
	if err := c.Send(ctx, client.Outgoing{Topic: "t", Bodies: [][]byte{[]byte("y"), []byte("z")}, Key: "k", DedupID: "d"}); err != nil {
		t.Error(err)
	}
	if err := c.Send(ctx, client.Outgoing{Topic: "t", Body: []byte("x"), DedupID: "e"}); !errors.Is(err, client.ErrRefused) {
		t.Errorf("without a key: %v", err)
	}
	if _, per := storedIn(t, b, "t"); !slices.Contains(per, 3) {
		t.Errorf("messages of one key are in several partitions: %v", per)
	}
}

// TestWithIDsNothingIsLostOrStoredTwice publishes from several goroutines while nodes are killed
// and restarted: every publish succeeds, and every message is stored once.
func TestWithIDsNothingIsLostOrStoredTwice(t *testing.T) {
	ctx := soon(t)
	nodes := brokertest.Cluster(t, 3, brokertest.InMemory())
	createTopic(t, nodes[0], `{"name":"t","config":{"partitions":3}}`)
	c := newClient(t, nodes.Addrs(), client.WithDedup(), client.WithHeartbeat(time.Second), client.WithReconnect(10*time.Millisecond, 100*time.Millisecond))
	const goroutines, each = 8, 60
	var publishing sync.WaitGroup
	var done atomic.Int64
	for g := range goroutines {
		publishing.Go(func() {
			for i := range each {
				if err := c.Publish(ctx, "t", fmt.Append(nil, g, "/", i)); err != nil {
					t.Errorf("%d/%d: %v", g, i, err)
				}
				done.Add(1)
			}
		})
	}
	for i, n := range nodes {
		for done.Load() < int64((i+1)*goroutines*each/8) && ctx.Err() == nil {
			runtime.Gosched()
		}
		n.Kill()
		n.Restart()
	}
	publishing.Wait()
	if n, per := storedIn(t, nodes[0], "t"); n != goroutines*each {
		t.Errorf("%d messages are stored, want %d; %v", n, goroutines*each, per)
	}
	if got := collect(ctx, t, c, "t", goroutines*each); len(slices.Compact(got)) != goroutines*each {
		t.Errorf("%d different messages, want %d", len(slices.Compact(got)), goroutines*each)
	}
}
