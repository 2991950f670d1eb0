package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

// DefaultAddress is the HTTP address of a broker with default configuration.
const DefaultAddress = "http://127.0.0.1:4151"

// DialTimeout limits the time for connecting to an address.
const DialTimeout = 3 * time.Second

// Client calls the /v1 API of any of several nodes. Its methods are safe for concurrent use;
// every error they return is, or wraps, an *Error.
//
// A node that refuses the connection or is shutting down is skipped. A node that does not
// answer in time is skipped if repeating the request is harmless; of several nodes, a change is
// sent only to one that answers. If it does not answer the change, the error has failure.Uncertain.
// The node that answered last is tried first.
type Client struct {
	Operations
	Insights Insights
	History  History
	Trash    Trash
	Upgrades Upgrades
	Access   Access
	Settings settingsClient
	t        transport
}

// ClientOptions configures a Client.
type ClientOptions struct {
	// Addresses of nodes, as URLs or host:port. None: DefaultAddress.
	Addresses []string
	// HTTP sends the requests. nil: a client that gives up on an unresponsive address after
	// DialTimeout. Other deadlines come from the contexts. CheckRedirect is used for reads only: a
	// redirected change fails with failure.Invalid.
	HTTP *http.Client
	// UserAgent is sent with every request.
	UserAgent string
	// Authorization is sent as the header of that name, to the Addresses and to nodes that the
	// client learns of: Bearer and a token, or Basic. "": none.
	Authorization string
	// Reason is recorded in the audit log with each change; optional.
	Reason string
	// SystemUser is the operating system's user, who is recorded while access control is off; optional.
	SystemUser string
}

// NewClient returns a client. It fails with failure.Invalid on an invalid address.
func NewClient(o ClientOptions) (*Client, error) {
	if len(o.Addresses) == 0 {
		o.Addresses = []string{DefaultAddress}
	}
	if o.HTTP == nil {
		o.HTTP = newHTTPClient()
	}
	c := &Client{t: transport{heard: map[*url.URL]time.Time{}, http: steadfast(o.HTTP), agent: o.UserAgent, reason: o.Reason, user: o.SystemUser, authorization: o.Authorization}}
	c.Operations, c.Insights, c.History, c.Trash, c.Upgrades, c.Access, c.Settings = Operations{&c.t}, Insights{&c.t}, History{&c.t}, Trash{&c.t}, Upgrades{&c.t}, Access{&c.t}, settingsClient{&c.t}
	for _, text := range o.Addresses {
		base, err := parseAddress(text)
		if err != nil {
			return nil, err
		}
		c.t.bases = append(c.t.bases, base)
	}
	return c, nil
}

// Know adds the address of another node, which is tried when the earlier ones do not answer.
// Known and invalid addresses are ignored. A client created with https addresses learns none:
// nodes advertise their plain HTTP addresses.
func (c *Client) Know(address string) {
	base, err := parseAddress(address)
	if err != nil {
		return
	}
	c.t.know(base)
}

// Topics returns every topic, by name.
func (c *Client) Topics(ctx context.Context) ([]Topic, error) {
	var out TopicList
	err := c.t.get(ctx, path("topics"), nil, &out)
	return out.Topics, err
}

// Topic describes one topic.
func (c *Client) Topic(ctx context.Context, name string) (*Topic, error) {
	return into[Topic](ctx, &c.t, path("topics", name))
}

// CreateTopic creates a topic. If the topic exists, it is returned if its configuration is the
// same; otherwise CreateTopic fails with failure.Exists.
func (c *Client) CreateTopic(ctx context.Context, req CreateTopic) (*Topic, error) {
	return post[Topic](ctx, &c.t, path("topics"), req)
}

// AlterTopic applies a patch and returns the changed topic.
func (c *Client) AlterTopic(ctx context.Context, name string, patch ConfigPatch) (*Topic, error) {
	out := new(Topic)
	return out, c.t.send(ctx, http.MethodPatch, path("topics", name), patch, out)
}

// AddPartitions raises the number of partitions of a topic to total.
func (c *Client) AddPartitions(ctx context.Context, name string, total int) (*Topic, error) {
	return post[Topic](ctx, &c.t, path("topics", name, "partitions"), AddPartitions{Partitions: total})
}

// PauseTopic stops or resumes the transfer of messages from a topic to its channels.
func (c *Client) PauseTopic(ctx context.Context, name string, paused bool) error {
	return c.t.send(ctx, http.MethodPost, path("topics", name, pauseVerb(paused)), nil, nil)
}

// EmptyTopic deletes the messages that have not reached any channel.
func (c *Client) EmptyTopic(ctx context.Context, name string) error {
	return c.t.send(ctx, http.MethodPost, path("topics", name, "empty"), nil, nil)
}

// DeleteTopic deletes a topic, its messages and its channels. Trash.Restore restores it within
// the retention of its trash.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	if isDotSegment(name) {
		return c.t.send(ctx, http.MethodDelete, path("topics")+"?"+url.Values{"topic": {name}}.Encode(), nil, nil)
	}
	return c.t.send(ctx, http.MethodDelete, path("topics", name), nil, nil)
}

// Verify compares the replicas of a topic.
func (c *Client) Verify(ctx context.Context, topic string) (*Verification, error) {
	return into[Verification](ctx, &c.t, path("topics", topic, "verify"))
}

// Partitions returns the partitions of every topic.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	var out PartitionList
	err := c.t.get(ctx, path("partitions"), nil, &out)
	return out.Partitions, err
}

// Channels returns the channels of a topic, by name.
func (c *Client) Channels(ctx context.Context, topic string) ([]ChannelSummary, error) {
	var out ChannelList
	err := c.t.get(ctx, path("topics", topic, "channels"), nil, &out)
	return out.Channels, err
}

// Channel describes one channel.
func (c *Client) Channel(ctx context.Context, topic, channel string) (*Channel, error) {
	return into[Channel](ctx, &c.t, path("topics", topic, "channels", channel))
}

// ExplainChannel reports why a channel makes no progress. It takes up to a second.
func (c *Client) ExplainChannel(ctx context.Context, topic, channel string) (*Explanation, error) {
	return into[Explanation](ctx, &c.t, path("topics", topic, "channels", channel, "explain"))
}

// CreateChannel creates a channel, or returns the existing one.
func (c *Client) CreateChannel(ctx context.Context, topic string, req CreateChannel) (*Channel, error) {
	return post[Channel](ctx, &c.t, path("topics", topic, "channels"), req)
}

// AlterChannel changes a channel and returns it.
func (c *Client) AlterChannel(ctx context.Context, topic, channel string, req AlterChannel) (*Channel, error) {
	out := new(Channel)
	return out, c.t.send(ctx, http.MethodPatch, path("topics", topic, "channels", channel), req, out)
}

// PauseChannel stops or resumes delivery of a channel.
func (c *Client) PauseChannel(ctx context.Context, topic, channel string, paused bool) error {
	return c.t.send(ctx, http.MethodPost, path("topics", topic, "channels", channel, pauseVerb(paused)), nil, nil)
}

// EmptyChannel finishes every message of a channel.
func (c *Client) EmptyChannel(ctx context.Context, topic, channel string) error {
	return c.t.send(ctx, http.MethodPost, path("topics", topic, "channels", channel, "empty"), nil, nil)
}

// SeekChannel moves a channel and returns it.
func (c *Client) SeekChannel(ctx context.Context, topic, channel string, to Seek) (*Channel, error) {
	return post[Channel](ctx, &c.t, path("topics", topic, "channels", channel, "seek"), to)
}

// DeleteChannel deletes a channel and disconnects its consumers. It returns the position that a restore restores, without
// partitions if none is saved.
func (c *Client) DeleteChannel(ctx context.Context, topic, channel string) (*SavedPosition, error) {
	at := path("topics", topic, "channels", channel)
	if isDotSegment(topic) || isDotSegment(channel) {
		at = path("channels") + "?" + url.Values{"topic": {topic}, "channel": {channel}}.Encode()
	}
	d := &SavedPosition{}
	if err := c.t.send(ctx, http.MethodDelete, at, nil, d); err != nil {
		return nil, err
	}
	return d, nil
}

// Publish stores messages. After an error of failure.Uncertain they may be stored.
func (c *Client) Publish(ctx context.Context, topic string, req Publish) (*Published, error) {
	return post[Published](ctx, &c.t, path("topics", topic, "messages"), req)
}

// MaxFiltered is how many messages of a partition a node evaluates for one Peek with a Filter.
const MaxFiltered = 100_000

// PeekOptions select the messages to return.
type PeekOptions struct {
	Partition *int      // nil: all of them
	From      *uint64   // the first offset; nil: a channel's first unfinished, a topic's oldest message
	Max       int       // how many in total; 0: the broker's default
	Filter    string    // an expression that chooses some; "": all
	State     PeekState // in the channel; "": any
}

// Peek returns messages of a topic without consuming them; with a channel, also their state in it.
func (c *Client) Peek(ctx context.Context, topic, channel string, o PeekOptions) ([]Peeked, error) {
	q := url.Values{}
	if o.Partition != nil {
		q.Set("partition", strconv.Itoa(*o.Partition))
	}
	if o.From != nil {
		q.Set("from", strconv.FormatUint(*o.From, 10))
	}
	if o.Max > 0 {
		q.Set("n", strconv.Itoa(o.Max))
	}
	if o.Filter != "" {
		q.Set("filter", o.Filter)
	}
	if o.State != "" {
		q.Set("state", string(o.State))
	}
	p := path("topics", topic, "messages")
	if channel != "" {
		p = path("topics", topic, "channels", channel, "messages")
	}
	var out PeekedList
	err := c.t.get(ctx, p, q, &out)
	return out.Messages, err
}

// Cluster describes the cluster.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	return into[Cluster](ctx, &c.t, path("cluster"))
}

// Health returns the cluster's health. A cluster that is not healthy is no error.
func (c *Client) Health(ctx context.Context) (*Health, error) {
	return into[Health](ctx, &c.t, path("cluster", "health"))
}

// Nodes returns every node, by id.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	out, err := c.NodeList(ctx)
	if err != nil {
		return nil, err
	}
	return out.Nodes, nil
}

// NodeList returns every node, and the members that are not registered as nodes.
func (c *Client) NodeList(ctx context.Context) (*NodeList, error) {
	return into[NodeList](ctx, &c.t, path("nodes"))
}

// CodeOf returns the code of the *Error in err's chain, "" if there is none.
func CodeOf(err error) failure.Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

func pauseVerb(paused bool) string {
	if paused {
		return "pause"
	}
	return "resume"
}
