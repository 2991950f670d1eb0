package nsq

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Identity is a client's description of itself in IDENTIFY. Times are in ms.
type Identity struct {
	ClientID            string `json:"client_id"`
	Hostname            string `json:"hostname"`
	ShortID             string `json:"short_id"` // former name of client_id
	LongID              string `json:"long_id"`  // former name of hostname
	UserAgent           string `json:"user_agent"`
	FeatureNegotiation  bool   `json:"feature_negotiation"`
	HeartbeatInterval   int    `json:"heartbeat_interval"`
	OutputBufferSize    int    `json:"output_buffer_size"`
	OutputBufferTimeout int    `json:"output_buffer_timeout"`
	MsgTimeout          int    `json:"msg_timeout"`
	SampleRate          int    `json:"sample_rate"`
	TLSv1               bool   `json:"tls_v1"`
	Snappy              bool   `json:"snappy"`
	Deflate             bool   `json:"deflate"`
	DeflateLevel        int    `json:"deflate_level"`
	TopologyRegion      string `json:"topology_region"`
	TopologyZone        string `json:"topology_zone"`
	ExtendSupport       bool   `json:"extend_support"` // request for message headers

	// Fields that only clients of the extensions send.
	DesiredTag   *string         `json:"desired_tag"`
	ExtFilter    json.RawMessage `json:"ext_filter"`
	Multiplexing *bool           `json:"multiplexing"`
}

// KnowsExtensions reports whether the client sends fields that only clients of the extensions
// send.
func (id *Identity) KnowsExtensions() bool {
	return id.ExtendSupport || id.DesiredTag != nil || id.ExtFilter != nil || id.Multiplexing != nil
}

// maxIdentityText limits each text of an Identity, in bytes, because it is stored for as long as
// the connection exists.
const maxIdentityText = 256

// ParseIdentity reads the body of an IDENTIFY. A field of a wrong JSON type
// fails the whole; unknown fields are ignored. The error is an *Error.
func ParseIdentity(body []byte) (Identity, error) {
	var id Identity
	filter := struct {
		Of *json.RawMessage `json:"ext_filter"`
	}{&id.ExtFilter}
	err := json.Unmarshal(jsonbytes.Visible(body), &id) // names of clients are for people
	if err == nil && id.ExtFilter != nil {
		err = json.Unmarshal(body, &filter) // as it was sent
	}
	if err != nil {
		return Identity{}, Errorf(failure.BadBody, "IDENTIFY failed to decode JSON body")
	}
	for _, field := range []struct{ name, text string }{
		{"client_id", id.ClientID},
		{"hostname", id.Hostname},
		{"short_id", id.ShortID},
		{"long_id", id.LongID},
		{"user_agent", id.UserAgent},
		{"topology_region", id.TopologyRegion},
		{"topology_zone", id.TopologyZone},
	} {
		if len(field.text) > maxIdentityText {
			return Identity{}, Errorf(failure.BadBody, "IDENTIFY %s has %d bytes, more than %d", field.name, len(field.text), maxIdentityText)
		}
	}
	return id, nil
}

// Limits are the limits and defaults of a server. The names in brackets are nsqd's options.
type Limits struct {
	Version             string        // in the answer to IDENTIFY; must look like 1.3.0, since some tools parse it
	MaxReady            int           // limits RDY. 2500. [max-rdy-count]
	MsgTimeout          time.Duration // how long a message may stay unanswered if the client does not choose. 60 s. [msg-timeout]
	MaxMsgTimeout       time.Duration // limits what the client may choose. 15 min. [max-msg-timeout]
	Heartbeat           time.Duration // interval for clients that do not choose. 30 s. [client-timeout, halved]
	MaxHeartbeat        time.Duration // limits what the client may choose. 60 s. [max-heartbeat-interval]
	OutputBufferSize    int           // bytes, if the client does not choose. 16 KiB
	MaxOutputBufferSize int           // limits what the client may choose. 64 KiB. [max-output-buffer-size]
	// OutputBufferTimeout is negotiated only because clients expect it: frames never wait for it,
	// as the buffer is flushed when there is nothing more to send. 250 ms, 25 ms, 30 s.
	// [output-buffer-timeout, min-, max-output-buffer-timeout]
	OutputBufferTimeout    time.Duration
	MinOutputBufferTimeout time.Duration
	MaxOutputBufferTimeout time.Duration
	TLS, Snappy, Deflate   bool // supported upgrades
	MaxDeflateLevel        int  // limits the level that the client may choose. 6. [max-deflate-level]
	AuthRequired           bool
	TopologyRegion         string // sent to clients, as TopologyZone. [topology-region, -zone]
	TopologyZone           string
	Upgraded               bool // the connection is already upgraded: no upgrade is offered
}

// Settings are the negotiated settings.
type Settings struct {
	Heartbeat           time.Duration // 0: none
	OutputBufferSize    int           // 1: none
	OutputBufferTimeout time.Duration // 0: none
	MsgTimeout          time.Duration
	SampleRate          int // 0: everything
	TLS                 bool
	Snappy              bool
	Deflate             bool
	DeflateLevel        int
	Extended            bool   // with message headers
	Knows               bool   // the client knows the extensions
	Tag                 string // of the requested messages; "": none
}

const (
	minHeartbeat        = time.Second
	minMsgTimeout       = time.Second
	minOutputBufferSize = 64
	maxSampleRate       = 99
	defaultDeflateLevel = 6
)

// Defaults returns the settings of a connection that did not identify.
func (l *Limits) Defaults() Settings {
	return Settings{
		Heartbeat: l.Heartbeat, OutputBufferSize: l.OutputBufferSize,
		OutputBufferTimeout: l.OutputBufferTimeout, MsgTimeout: l.MsgTimeout,
		DeflateLevel: min(defaultDeflateLevel, l.MaxDeflateLevel),
	}
}

// Negotiate returns the settings for a client, or the *Error that refuses it. Upgrades require
// feature negotiation.
func (l *Limits) Negotiate(id *Identity) (Settings, error) {
	s := l.Defaults()
	var err error
	if s.Heartbeat, err = pick("heartbeat interval", id.HeartbeatInterval, l.Heartbeat, minHeartbeat, l.MaxHeartbeat); err != nil {
		return s, err
	}
	size, wait := id.OutputBufferSize, id.OutputBufferTimeout
	if id.KnowsExtensions() { // youzan's nsq adjusts what nsqd refuses
		size = min(size, l.MaxOutputBufferSize)
		if wait > 0 {
			wait = max(wait, int(l.MinOutputBufferTimeout.Milliseconds()))
		}
	}
	s.OutputBufferTimeout, err = pick("output buffer timeout", wait, l.OutputBufferTimeout, l.MinOutputBufferTimeout, l.MaxOutputBufferTimeout)
	if err != nil {
		return s, err
	}
	switch {
	case size == 0:
	case size == -1:
		s.OutputBufferSize, s.OutputBufferTimeout = 1, 0
	case size >= minOutputBufferSize && size <= l.MaxOutputBufferSize:
		s.OutputBufferSize = size
	default:
		return s, Errorf(failure.BadBody, "IDENTIFY output buffer size (%d) is invalid", size)
	}
	if id.SampleRate < 0 || id.SampleRate > maxSampleRate {
		return s, Errorf(failure.BadBody, "IDENTIFY sample rate (%d) is invalid", id.SampleRate)
	}
	s.SampleRate, s.Extended, s.Knows = id.SampleRate, id.ExtendSupport, id.KnowsExtensions()
	if id.DesiredTag != nil {
		s.Tag = *id.DesiredTag
	}
	if id.MsgTimeout == -1 {
		return s, Errorf(failure.BadBody, "IDENTIFY msg timeout (%d) is invalid", id.MsgTimeout)
	}
	if s.MsgTimeout, err = pick("msg timeout", id.MsgTimeout, l.MsgTimeout, minMsgTimeout, l.MaxMsgTimeout); err != nil {
		return s, err
	}
	if !id.FeatureNegotiation || l.Upgraded {
		return s, nil
	}
	return s, s.upgrade(id, l)
}

func (s *Settings) upgrade(id *Identity, l *Limits) error {
	s.TLS = id.TLSv1 && l.TLS
	s.Snappy = id.Snappy && l.Snappy
	s.Deflate = id.Deflate && l.Deflate
	if s.Deflate && id.DeflateLevel > 0 {
		s.DeflateLevel = min(id.DeflateLevel, l.MaxDeflateLevel)
	}
	if s.Snappy && s.Deflate {
		return Errorf(failure.IdentifyFailed, "cannot enable both deflate and snappy compression")
	}
	return nil
}

// pick parses a duration requested in ms: 0 is the default, -1 none.
func pick(what string, ms int, def, lo, hi time.Duration) (time.Duration, error) {
	switch {
	case ms == 0:
		return def, nil
	case ms == -1:
		return 0, nil
	case ms >= int(lo.Milliseconds()) && ms <= int(hi.Milliseconds()):
		return time.Duration(ms) * time.Millisecond, nil
	}
	return 0, Errorf(failure.BadBody, "IDENTIFY %s (%d) is invalid", what, ms)
}

// identified is the response to IDENTIFY, with the keys in nsqd's order.
type identified struct {
	MaxReady            int    `json:"max_rdy_count"`
	Version             string `json:"version"`
	MaxMsgTimeout       int64  `json:"max_msg_timeout"`
	MsgTimeout          int64  `json:"msg_timeout"`
	TLSv1               bool   `json:"tls_v1"`
	Deflate             bool   `json:"deflate"`
	DeflateLevel        int    `json:"deflate_level"`
	MaxDeflateLevel     int    `json:"max_deflate_level"`
	Snappy              bool   `json:"snappy"`
	SampleRate          int    `json:"sample_rate"`
	AuthRequired        bool   `json:"auth_required"`
	OutputBufferSize    int    `json:"output_buffer_size"`
	OutputBufferTimeout int64  `json:"output_buffer_timeout"`
	TopologyRegion      string `json:"topology_region"`
	TopologyZone        string `json:"topology_zone"`
	DesiredTag          string `json:"desired_tag,omitempty"`
}

// AppendIdentified appends the JSON response to an IDENTIFY with feature negotiation.
func (l *Limits) AppendIdentified(dst []byte, s *Settings) ([]byte, error) {
	text, err := json.Marshal(identified{
		MaxReady: l.MaxReady, Version: l.Version,
		MaxMsgTimeout: l.MaxMsgTimeout.Milliseconds(), MsgTimeout: s.MsgTimeout.Milliseconds(),
		TLSv1: s.TLS, Deflate: s.Deflate, DeflateLevel: s.DeflateLevel, MaxDeflateLevel: l.MaxDeflateLevel,
		Snappy: s.Snappy, SampleRate: s.SampleRate, AuthRequired: l.AuthRequired,
		OutputBufferSize: s.OutputBufferSize, OutputBufferTimeout: s.OutputBufferTimeout.Milliseconds(),
		TopologyRegion: l.TopologyRegion, TopologyZone: l.TopologyZone, DesiredTag: s.Tag,
	})
	if err != nil {
		return dst, fmt.Errorf("encoding the answer: %w", err)
	}
	return append(dst, text...), nil
}

// Validate reports limits that contradict each other.
func (l *Limits) Validate() error {
	switch {
	case l.MaxReady < 1:
		return errors.New("max ready count must be at least 1")
	case l.MsgTimeout > l.MaxMsgTimeout:
		return errors.New("message timeout is above its maximum")
	case l.Heartbeat > l.MaxHeartbeat:
		return errors.New("heartbeat interval is above its maximum")
	case l.OutputBufferSize > l.MaxOutputBufferSize:
		return errors.New("output buffer size is above its maximum")
	case l.MaxDeflateLevel < 1 || l.MaxDeflateLevel > 9:
		return errors.New("max deflate level must be from 1 to 9")
	}
	return nil
}
