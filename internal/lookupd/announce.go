package lookupd

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
)

// Intervals and timeouts of an Announcer.
const (
	pingInterval = 15 * time.Second
	firstRetry   = time.Second
	lastRetry    = 15 * time.Second
	maxChannels  = 4 << 20 // bytes of a /channels answer
)

// Catalog is what a broker serves. Its methods may be called by many
// goroutines at once.
type Catalog interface {
	// Topics returns the channels of every topic by the topic's name. The map
	// belongs to the caller.
	Topics() map[string][]string
	// Changed returns a channel that is closed at the next change of Topics.
	Changed() <-chan struct{}
}

// Announcer makes a broker known to lookup daemons: it keeps a connection to each, registers what
// the broker serves, and unregisters what it no longer serves. Its methods are safe for concurrent
// use.
type Announcer struct {
	node    introduction
	catalog Catalog
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	client  *http.Client
	timeout time.Duration
	log     *slog.Logger

	mu        sync.Mutex // guards addresses, wake and daemons
	addresses []string
	wake      chan struct{}   // closed when addresses change
	daemons   map[string]Self // by address: those that have introduced themselves
}

// AnnouncerOptions are what an Announcer needs. All but Dial and Timeout are
// required.
type AnnouncerOptions struct {
	Node      nsqform.Producer // RemoteAddress is not used
	Addresses []string
	Catalog   Catalog
	Log       *slog.Logger
	// Timeout bounds connecting and each exchange; 0: a second.
	Timeout time.Duration
	// Dial connects to a daemon; nil: over TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewAnnouncer returns an Announcer that does nothing until Run.
func NewAnnouncer(o AnnouncerOptions) *Announcer {
	timeout := cmp.Or(o.Timeout, time.Second)
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: timeout}).DialContext
	}
	return &Announcer{
		node: introduction{
			Version: o.Node.Version, TCPPort: o.Node.TCPPort, HTTPPort: o.Node.HTTPPort, Hostname: o.Node.Hostname,
			BroadcastAddress: o.Node.BroadcastAddress, TopologyZone: o.Node.TopologyZone, TopologyRegion: o.Node.TopologyRegion,
		},
		catalog: o.Catalog, dial: dial, timeout: timeout, log: o.Log,
		client:    &http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		addresses: slices.Clone(o.Addresses), wake: make(chan struct{}), daemons: map[string]Self{},
	}
}

// SetAddresses replaces the daemons to announce to.
func (a *Announcer) SetAddresses(addresses []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addresses = slices.Clone(addresses)
	close(a.wake)
	a.wake = make(chan struct{})
}

// Addresses returns the daemons that the broker is announced to.
func (a *Announcer) Addresses() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.addresses)
}

func (a *Announcer) wanted() ([]string, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.addresses), a.wake
}

// Run announces until ctx is done and returns when every connection is closed.
func (a *Announcer) Run(ctx context.Context) {
	var daemons sync.WaitGroup
	defer daemons.Wait()
	running := map[string]context.CancelFunc{}
	for {
		addresses, changed := a.wanted()
		for address, cancel := range running {
			if !slices.Contains(addresses, address) {
				cancel()
				delete(running, address)
			}
		}
		for _, address := range addresses {
			if running[address] == nil {
				one, cancel := context.WithCancel(ctx)
				running[address] = cancel
				daemons.Go(func() { a.keep(one, address) })
			}
		}
		select {
		case <-ctx.Done():
			for _, cancel := range running {
				cancel()
			}
			return
		case <-changed:
		}
	}
}

// keep announces to one daemon, repeatedly after failures.
func (a *Announcer) keep(ctx context.Context, address string) {
	pause := firstRetry
	for {
		began := time.Now()
		err := a.announce(ctx, address)
		if ctx.Err() != nil {
			return
		}
		a.log.Warn("connection to nsqlookupd lost; reconnecting", "lookupd", address, "error", err)
		if time.Since(began) > pingInterval {
			pause = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastRetry)
	}
}

// announce speaks with one daemon until something fails.
func (a *Announcer) announce(ctx context.Context, address string) error {
	conn, err := a.dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	d := &daemon{conn: conn, r: bufio.NewReader(conn), timeout: a.timeout}
	self, err := d.introduce(a.node)
	if err != nil {
		return err
	}
	a.check(address, self)
	defer a.forgetDaemon(address)
	a.log.Info("registered with nsqlookupd", "lookupd", address, "version", self.Version)
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	for {
		changed := a.catalog.Changed()
		want := registrations(a.catalog.Topics())
		for _, command := range difference(d.told, want) {
			if err := d.ask(command + "\n"); err != nil {
				return err
			}
		}
		d.told = want
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-ping.C:
			if err := d.ask("PING\n"); err != nil {
				return err
			}
		}
	}
}

func (a *Announcer) check(address string, self Self) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.daemons[address] = self
}

func (a *Announcer) forgetDaemon(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.daemons, address)
}

// Channels asks every connected daemon for the channels of a topic, and returns their union,
// sorted. A topic that is new here should get these channels before its first message. The error
// joins those of daemons that did not respond; the channels of the others are returned with it.
func (a *Announcer) Channels(ctx context.Context, topic string) ([]string, error) {
	a.mu.Lock()
	daemons := maps.Clone(a.daemons)
	a.mu.Unlock()
	union := map[string]bool{}
	var failures []error
	for _, address := range slices.Sorted(maps.Keys(daemons)) {
		self := daemons[address]
		channels, err := a.channelsAt(ctx, joinHostPort(self.BroadcastAddress, self.HTTPPort), topic)
		if err != nil {
			failures = append(failures, fmt.Errorf("fetch channels of %s from %s: %w", topic, address, err))
		}
		for _, c := range channels {
			union[c] = true
		}
	}
	return slices.Sorted(maps.Keys(union)), errors.Join(failures...)
}

func (a *Announcer) channelsAt(ctx context.Context, address, topic string) ([]string, error) {
	target := "http://" + address + "/channels?topic=" + url.QueryEscape(topic)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/vnd.nsq; version=1.0")
	res, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", res.Status)
	}
	var found struct{ Channels []string }
	if err := json.NewDecoder(io.LimitReader(res.Body, maxChannels)).Decode(&found); err != nil {
		return nil, fmt.Errorf("decode response: %w", err)
	}
	return found.Channels, nil
}

// daemon is one conversation with a lookup daemon.
type daemon struct {
	conn    net.Conn
	r       *bufio.Reader
	timeout time.Duration
	told    map[registration]struct{}
}

func (d *daemon) introduce(in introduction) (Self, error) {
	command, err := identifyCommand(in)
	if err != nil {
		return Self{}, err
	}
	data, err := d.exchange(magic + string(command))
	if err != nil {
		return Self{}, err
	}
	var self Self
	if err := json.Unmarshal(data, &self); err != nil {
		return Self{}, fmt.Errorf("refused: %.100q", data)
	}
	return self, nil
}

// ask sends a command whose answer is OK.
func (d *daemon) ask(command string) error {
	data, err := d.exchange(command)
	if err == nil && string(data) != okAnswer {
		err = fmt.Errorf("unexpected response to %s: %.100q", strings.TrimSpace(command), data)
	}
	return err
}

func (d *daemon) exchange(command string) ([]byte, error) {
	if err := d.conn.SetDeadline(time.Now().Add(d.timeout)); err != nil {
		return nil, err
	}
	if _, err := d.conn.Write([]byte(command)); err != nil {
		return nil, err
	}
	return readAnswer(d.r)
}

// registration is a topic, or a channel of it.
type registration struct{ topic, channel string }

func (r registration) String() string {
	return strings.TrimSuffix(r.topic+" "+r.channel, " ")
}

func registrations(topics map[string][]string) map[registration]struct{} {
	all := map[registration]struct{}{}
	for topic, channels := range topics {
		all[registration{topic, ""}] = struct{}{}
		for _, c := range channels {
			all[registration{topic, c}] = struct{}{}
		}
	}
	return all
}

// difference returns the commands that turn the registrations at a daemon into the wanted ones.
// Unregistering a topic also unregisters its channels, so those come first; a topic is registered
// before its channels.
func difference(told, want map[registration]struct{}) []string {
	order := func(a, b registration) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), strings.Compare(a.channel, b.channel))
	}
	var commands []string
	for _, r := range slices.SortedFunc(maps.Keys(told), func(a, b registration) int { return order(b, a) }) {
		if _, keep := want[r]; !keep {
			commands = append(commands, "UNREGISTER "+r.String())
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(want), order) {
		if _, known := told[r]; !known {
			commands = append(commands, "REGISTER "+r.String())
		}
	}
	return commands
}
