package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func from(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

func TestNoAddressTakesAllConnections(t *testing.T) {
	var said bytes.Buffer
	c := newConnLimits(400, &config.Limits{MaxConnections: 200}, nil, slog.New(slog.NewTextHandler(&said, nil)))
	now := time.Unix(1000, 0)
	if own := newConnLimits(400, &config.Limits{MaxConnections: 200, MaxOfAddress: 7}, nil, slog.New(slog.DiscardHandler)); own.maxAddress != 7 {
		t.Errorf("an address may have %d where 7 are set", own.maxAddress)
	}
	if c.max != 300 || c.maxAddress != 100 {
		t.Fatalf("limits are %d, and %d of an address", c.max, c.maxAddress)
	}
	var leave func()
	enter := func(ip string) bool {
		l, ok := c.enter(from(ip), c.max, now)
		if ok {
			leave = l
		}
		return ok
	}
	for i := range 100 {
		if !enter("192.0.2.1") {
			t.Fatalf("connection %d of an address is refused", i)
		}
	}
	for range 50 {
		if enter("192.0.2.1") {
			t.Fatal("one address has more than its part")
		}
	}
	if n := strings.Count(said.String(), "\n"); n != 1 {
		t.Errorf("%d lines for 50 refusals: %s", n, said.String())
	}
	now = now.Add(refusalLogEvery)
	enter("192.0.2.1")
	if !strings.Contains(said.String(), "refused=50") {
		t.Errorf("what was not told is not counted: %s", said.String())
	}
	if !enter("192.0.2.2") {
		t.Error("another address is refused")
	}
	for range 199 {
		if !enter("127.0.0.1") {
			t.Fatal("loopback is bounded by address")
		}
	}
	if enter("127.0.0.1") || enter("192.0.2.3") {
		t.Error("no descriptors are left for the node")
	}
	leave()
	leave()
	if !enter("192.0.2.3") || enter("192.0.2.3") {
		t.Error("one place is free after one connection has ended")
	}
}

// A node uses some descriptors itself, however few there are.
func TestSmallLimitLeavesTheNodeItsDescriptors(t *testing.T) {
	for limit, want := range map[uint64][2]int{16: {4, 3}, 64: {16, 14}, 100: {36, 32}, 256: {192, 168}, 1024: {768, 672}} {
		c := newConnLimits(limit, &config.Limits{}, nil, slog.New(slog.DiscardHandler))
		if got := [2]int{c.max, c.maxNSQ}; got != want {
			t.Errorf("of %d descriptors, clients get %v, want %v", limit, got, want)
		}
	}
}

// TestProbesAreAnsweredAtConnectionLimit has NSQ clients take all connections that they may.
func TestProbesAreAnsweredAtConnectionLimit(t *testing.T) {
	c := newConnLimits(400, &config.Limits{MaxConnections: 200}, nil, slog.New(slog.DiscardHandler))
	take := func(wrap func(net.Listener) net.Listener, of int) (taken int) {
		conns := make(chan net.Conn, of)
		for range of {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = near.Close() })
			conns <- far
		}
		close(conns)
		for l := wrap(one{conns: conns}); ; taken++ {
			if _, err := l.Accept(); err != nil {
				return taken
			}
		}
	}
	if n := take(c.nsq, 400); n != 263 {
		t.Errorf("NSQ clients have %d connections, want seven eighths of 300", n)
	}
	if n := take(c.http, 400); n != 37 {
		t.Errorf("HTTP has %d connections, want the rest of 300", n)
	}
	if n := take(c.nsq, 1) + take(c.http, 1); n != 0 {
		t.Errorf("%d connections are taken where the node needs the descriptors", n)
	}
}

// TestConnectionsAndFiles has files use all descriptors that connections leave.
func TestConnectionsAndFiles(t *testing.T) {
	gaveUp := 0
	disk := vfs.OS{Files: vfs.NewFiles(120, vfs.FilesEvents{GaveUp: func(string) { gaveUp++ }})} // for 60 files
	dir := t.TempDir()
	open := func(i int) {
		f, err := disk.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
	}
	for i := range 60 {
		open(i)
	}
	c := newConnLimits(64, &config.Limits{MaxConnections: 20, MaxOfAddress: 1}, disk.Files, slog.New(slog.DiscardHandler))
	leave, ok := c.enter(from("192.0.2.1"), c.max, time.Now())
	if _, second := c.enter(from("192.0.2.1"), c.max, time.Now()); !ok || second || gaveUp != 1 {
		t.Fatalf("%d files gave up descriptors for one connection", gaveUp)
	}
	leave()
	if open(60); gaveUp != 1 {
		t.Error("the descriptor of a connection that has ended is lost")
	}
	if open(61); gaveUp != 2 {
		t.Error("more descriptors are held than there are")
	}
}

// one is a listener that accepts what it is given.
type one struct {
	net.Listener
	conns chan net.Conn
}

func (l one) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func TestExcessConnectionIsClosed(t *testing.T) {
	c := newConnLimits(400, &config.Limits{MaxConnections: 200}, nil, slog.New(slog.DiscardHandler))
	conns := make(chan net.Conn, 3)
	var ends []net.Conn
	for range 3 {
		near, far := net.Pipe()
		ends = append(ends, near)
		conns <- far
	}
	close(conns)
	l := &boundListener{one{conns: conns}, c, 1}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); err == nil { // the second and the third are over the limit
		t.Error("a second connection is taken")
	}
	for _, end := range ends[1:] {
		if _, err := end.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read %v", err)
		}
	}
	_ = first.Close()
	if c.all != 0 {
		t.Errorf("%d are counted after the end", c.all)
	}
}
