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
	"time"

	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
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
	// RDY is how many messages the consumer lets be in flight to it.
	RDY int
	// Lookup connects publishers and consumers of Raw to the first node that
	// GET /lookup of HTTP names, not to TCP: the best place to be.
	Lookup bool
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

// channel is the consumer group.
const channel = "ch"

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

// conn is one connection that has sent IDENTIFY.
type conn struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

func dial(ctx context.Context, address string) (*conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	cn := &conn{Conn: nc, r: bufio.NewReaderSize(nc, 128<<10), w: bufio.NewWriterSize(nc, 128<<10)}
	const id = `{"client_id":"loadgen","hostname":"loadgen","user_agent":"github.com/brokerd/brokerd/tools/loadgen/1","feature_negotiation":true}`
	cn.w.WriteString("  V2IDENTIFY\n")
	cn.writeLen(len(id))
	cn.w.WriteString(id)
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

// subscribe sends SUB and expects OK.
func (c *conn) subscribe(topic string) error {
	fmt.Fprintf(c.w, "SUB %s %s\n", topic, channel)
	if err := c.w.Flush(); err != nil {
		return err
	}
	return c.expectOK()
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
	if a.HTTP == "" {
		if !group {
			return nil // the first PUB makes it
		}
		c, err := dial(ctx, a.TCP)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.subscribe(topic)
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
		return a.post(ctx, "/channel/create", url.Values{"topic": {topic}, "channel": {channel}}, nil)
	}
	config, err := object(a.ChannelConfig)
	if err != nil {
		return fmt.Errorf("configuration of the channel: %w", err)
	}
	config["name"] = channel
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
	all := a.topics(topic)
	return broker.Each(len(all), together, func(i int) error { return f(all[i]) })
}

// get decodes the JSON of the answer to a path and a topic.
func (a *admin) get(ctx context.Context, path, topic string, out any) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+a.HTTP+path+url.QueryEscape(topic), nil)
	if err != nil {
		return err
	}
	resp, err := httpc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(out)
}

// dial connects to the broker, for a topic.
func (a *admin) dial(ctx context.Context, topic string) (*conn, error) {
	if !a.Lookup {
		return dial(ctx, a.TCP)
	}
	var answer struct {
		Producers []struct {
			Address string `json:"broadcast_address"`
			Port    int    `json:"tcp_port"`
		} `json:"producers"`
	}
	if err := a.get(ctx, "/lookup?topic=", topic, &answer); err != nil {
		return nil, err
	}
	if len(answer.Producers) == 0 {
		return nil, fmt.Errorf("no node has topic %s", topic)
	}
	return dial(ctx, net.JoinHostPort(answer.Producers[0].Address, strconv.Itoa(answer.Producers[0].Port)))
}

// Delete implements broker.Driver.
func (a *admin) Delete(ctx context.Context, topic string) error {
	if a.HTTP == "" {
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
	var stats struct {
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
	if err := a.get(ctx, "/stats?format=json&topic=", topic, &stats); err != nil {
		return 0, err
	}
	var n int64
	found := false
	for _, tp := range stats.Topics {
		if tp.Name != topic {
			continue
		}
		for _, ch := range tp.Channels {
			if ch.Name == channel {
				found = true
				n += ch.Depth + ch.InFlight + ch.Deferred
			}
		}
		n += tp.Depth // what no channel has had yet
	}
	if !found {
		return 0, fmt.Errorf("channel %s of topic %s is not in the stats", channel, topic)
	}
	return n, nil
}

// Close implements broker.Driver.
func (a *admin) Close() error { return nil }
