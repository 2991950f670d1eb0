// Package nsq loads anything that speaks the NSQ TCP protocol. It has two drivers: Raw, which
// writes and reads the protocol itself and keeps many commands in flight on a connection, and
// Client, which uses go-nsq.
package nsq

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	frameResponse = 0
	frameError    = 1
	frameMessage  = 2
)

// Config is the broker's address and the form of the protocol.
type Config struct {
	TCP  string // host:port of the broker's NSQ protocol port
	HTTP string // host:port of its HTTP API; empty where it has none
	// Channel is the consumer group.
	Channel string
	// Partition, if not negative, is added to PUB, MPUB and SUB as brokers with
	// partitioned topics (youzan's nsqd) expect it.
	Partition int
	// RDY is how many messages the consumer lets be in flight to it.
	RDY int
	// BufferSize and BufferTimeout are the consumer's output_buffer_size (bytes)
	// and output_buffer_timeout; 0 leaves the broker's default, -1 turns it off.
	BufferSize    int
	BufferTimeout time.Duration
	// Lookup connects publishers and consumers of Raw to the first node that
	// GET /lookup of HTTP names, not to TCP: the best place to be.
	Lookup bool
	// NoCreate is for a broker whose topics are created outside this program.
	NoCreate bool
	// Topics, if more than 1, is the number of topics over which a publisher of Raw spreads its
	// messages or batches, in turn: TOPIC_0, TOPIC_1 and so on.
	Topics int
	// Partitions, if not 0, is how many partitions a topic is created with, by the API of
	// brokerd; the messages of a publisher that names none are spread over them.
	Partitions int
	// Keys, if not 0, makes publishers of Raw give each message one of that many keys, in turn, and
	// IDs a dedup id of its own: both in the header of MPUB_EXT.
	Keys int
	IDs  bool
	// TopicConfig and ChannelConfig, if not empty, are JSON objects with further configuration for
	// creating topics and channels, in the form of brokerd's API.
	TopicConfig, ChannelConfig string
}

// topics returns the names of a topic's topics.
func (c *Config) topics(topic string) []string {
	if c.Topics <= 1 {
		return []string{topic}
	}
	all := make([]string, c.Topics)
	for i := range all {
		all[i] = topic + "_" + strconv.Itoa(i)
	}
	return all
}

func (c *Config) part() string {
	if c.Partition < 0 {
		return ""
	}
	return " " + strconv.Itoa(c.Partition)
}

// conn is one connection that has sent IDENTIFY.
type conn struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

func dial(ctx context.Context, c *Config, consumer bool) (*conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", c.TCP)
	if err != nil {
		return nil, err
	}
	cn := &conn{Conn: nc, r: bufio.NewReaderSize(nc, 128<<10), w: bufio.NewWriterSize(nc, 128<<10)}
	id := map[string]any{
		"client_id": "loadgen", "hostname": "loadgen", "user_agent": "github.com/brokerd/brokerd/tools/loadgen/1",
		"feature_negotiation": true,
	}
	if consumer {
		if c.BufferSize != 0 {
			id["output_buffer_size"] = c.BufferSize
		}
		if c.BufferTimeout < 0 {
			id["output_buffer_timeout"] = -1
		} else if c.BufferTimeout > 0 {
			id["output_buffer_timeout"] = c.BufferTimeout.Milliseconds()
		}
	}
	b, err := json.Marshal(id)
	if err != nil {
		return nil, err
	}
	cn.w.WriteString("  V2IDENTIFY\n")
	cn.writeLen(len(b))
	cn.w.Write(b)
	if err := cn.w.Flush(); err != nil {
		nc.Close()
		return nil, err
	}
	typ, data, err := cn.frame(nil)
	if err == nil && typ != frameResponse {
		err = fmt.Errorf("IDENTIFY: %s", data)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return cn, nil
}

func (c *conn) writeLen(n int) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	c.w.Write(b[:])
}

// frame reads one frame into buf, grown as needed.
func (c *conn) frame(buf []byte) (typ int, data []byte, err error) {
	var h [8]byte
	if _, err := io.ReadFull(c.r, h[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint32(h[:])) - 4
	if n < 0 || n > 64<<20 {
		return 0, nil, fmt.Errorf("frame of %d bytes", n)
	}
	if cap(buf) < n {
		buf = make([]byte, n, n+n/2)
	}
	buf = buf[:n]
	_, err = io.ReadFull(c.r, buf)
	return int(binary.BigEndian.Uint32(h[4:])), buf, err
}

// expectOK reads frames, answering heartbeats, until a response or an error.
func (c *conn) expectOK() error {
	var buf [256]byte
	for {
		typ, data, err := c.frame(buf[:0])
		switch {
		case err != nil:
			return err
		case typ == frameError:
			return errors.New(string(data))
		case typ != frameResponse:
			return fmt.Errorf("frame of type %d where a response was expected", typ)
		case string(data) == "_heartbeat_":
			c.w.WriteString("NOP\n")
			if err := c.w.Flush(); err != nil {
				return err
			}
		case string(data) == "OK":
			return nil
		default:
			return fmt.Errorf("response %q", data)
		}
	}
}

// admin sends requests to the broker's HTTP API.
type admin struct{ Config }

var httpc = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// post sends a request whose body is JSON, unless it is nil.
func (a *admin) post(ctx context.Context, path string, q url.Values, body any) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+a.HTTP+path+"?"+q.Encode(), bytes.NewReader(b))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := httpc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("POST %s: %s: %s", path, resp.Status, strings.TrimSpace(string(answer)))
	}
	return nil
}

// Create implements broker.Driver. Without an HTTP API it subscribes once, which creates the topic
// and the channel on any NSQ broker.
func (a *admin) Create(ctx context.Context, topic string, group bool) error {
	if a.NoCreate {
		return nil
	}
	if a.HTTP == "" {
		if !group {
			return nil // the first PUB makes it
		}
		c, err := dial(ctx, &a.Config, true)
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintf(c.w, "SUB %s %s%s\n", topic, a.Channel, a.part())
		if err := c.w.Flush(); err != nil {
			return err
		}
		return c.expectOK()
	}
	return a.each(topic, func(topic string) error {
		err := a.createTopic(ctx, topic)
		if err != nil || !group {
			return err
		}
		return a.createChannel(ctx, topic)
	})
}

// createTopic creates one topic; brokerd's API supports partitions, NSQ's does not.
func (a *admin) createTopic(ctx context.Context, topic string) error {
	if a.Partitions == 0 && a.TopicConfig == "" {
		return a.post(ctx, "/topic/create", url.Values{"topic": {topic}}, nil)
	}
	config, err := object(a.TopicConfig)
	if err != nil {
		return fmt.Errorf("configuration of the topic: %w", err)
	}
	if a.Partitions != 0 {
		config["partitions"] = a.Partitions
	}
	return a.post(ctx, "/v1/topics", nil, map[string]any{"name": topic, "config": config})
}

func (a *admin) createChannel(ctx context.Context, topic string) error {
	if a.ChannelConfig == "" {
		return a.post(ctx, "/channel/create", url.Values{"topic": {topic}, "channel": {a.Channel}}, nil)
	}
	config, err := object(a.ChannelConfig)
	if err != nil {
		return fmt.Errorf("configuration of the channel: %w", err)
	}
	config["name"] = a.Channel
	return a.post(ctx, "/v1/topics/"+topic+"/channels", nil, config)
}

// object decodes a JSON object; an empty text is an empty object.
func object(text string) (map[string]any, error) {
	fields := map[string]any{}
	if text == "" {
		return fields, nil
	}
	return fields, json.Unmarshal([]byte(text), &fields)
}

// together is how many topics are created or deleted at a time.
const together = 8

// each calls f with all topics of a topic, and returns the first error.
func (a *admin) each(topic string, f func(topic string) error) error {
	var first atomic.Pointer[error]
	var running sync.WaitGroup
	slots := make(chan struct{}, together)
	for _, name := range a.topics(topic) {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := f(name); err != nil {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	running.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

// at returns the configuration for a connection for a topic.
func (a *admin) at(ctx context.Context, topic string) (*Config, error) {
	if !a.Lookup {
		return &a.Config, nil
	}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+a.HTTP+"/lookup?topic="+url.QueryEscape(topic), nil)
	if err != nil {
		return nil, err
	}
	resp, err := httpc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Producers []struct {
			Address string `json:"broadcast_address"`
			Port    int    `json:"tcp_port"`
		} `json:"producers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if len(answer.Producers) == 0 {
		return nil, fmt.Errorf("no node has topic %s", topic)
	}
	c := a.Config
	c.TCP = net.JoinHostPort(answer.Producers[0].Address, strconv.Itoa(answer.Producers[0].Port))
	return &c, nil
}

// Delete implements broker.Driver.
func (a *admin) Delete(ctx context.Context, topic string) error {
	if a.NoCreate || a.HTTP == "" {
		return nil
	}
	return a.each(topic, func(topic string) error {
		return a.post(ctx, "/topic/delete", url.Values{"topic": {topic}}, nil)
	})
}

// Backlog implements broker.Driver.
func (a *admin) Backlog(ctx context.Context, topic string) (int64, error) {
	if a.HTTP == "" {
		return 0, errors.New("no HTTP API to ask")
	}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+a.HTTP+"/stats?format=json&topic="+url.QueryEscape(topic), nil)
	if err != nil {
		return 0, err
	}
	resp, err := httpc.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	type stats struct {
		Topics []struct {
			Name     string `json:"topic_name"`
			Depth    int64  `json:"depth"`
			Channels []struct {
				Name     string `json:"channel_name"`
				Depth    int64  `json:"depth"`
				InFlight int64  `json:"in_flight_count"`
				Deferred int64  `json:"deferred_count"`
			} `json:"channels"`
		} `json:"topics"`
	}
	// Older servers wrap the answer in "data".
	var s struct {
		stats
		Data *stats `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return 0, err
	}
	t := s.stats
	if s.Data != nil {
		t = *s.Data
	}
	var n int64
	found := false
	for _, tp := range t.Topics {
		if tp.Name != topic {
			continue
		}
		for _, ch := range tp.Channels {
			if ch.Name == a.Channel {
				found = true
				n += ch.Depth + ch.InFlight + ch.Deferred
			}
		}
		if s.Data == nil { // a topic's own depth is what no channel has had yet
			n += tp.Depth
		}
	}
	if !found {
		return 0, fmt.Errorf("channel %s of topic %s is not in the stats", a.Channel, topic)
	}
	return n, nil
}

// Close implements broker.Driver.
func (a *admin) Close() error { return nil }
