package client

import (
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"
)

// Names of commands.
const (
	cmdNOP   = "NOP"
	cmdCLS   = "CLS"
	cmdRDY   = "RDY"
	cmdFIN   = "FIN"
	cmdTOUCH = "TOUCH"
	cmdREQ   = "REQ"
)

// identify is the body of IDENTIFY. Durations are in ms.
type identify struct {
	ClientID           string `json:"client_id"`
	Hostname           string `json:"hostname"`
	UserAgent          string `json:"user_agent"`
	FeatureNegotiation bool   `json:"feature_negotiation"`
	HeartbeatInterval  int64  `json:"heartbeat_interval"`
	MsgTimeout         int64  `json:"msg_timeout,omitempty"`
	SampleRate         int    `json:"sample_rate,omitempty"`
	ExtendSupport      bool   `json:"extend_support,omitempty"`
	DesiredTag         string `json:"desired_tag,omitempty"`
	TLS                bool   `json:"tls_v1,omitempty"`
	Snappy             bool   `json:"snappy,omitempty"`
	Deflate            bool   `json:"deflate,omitempty"`
	DeflateLevel       int    `json:"deflate_level,omitempty"`
}

// identified holds the fields used of the response to IDENTIFY.
type identified struct {
	MaxRdyCount  int   `json:"max_rdy_count"`
	MsgTimeout   int64 `json:"msg_timeout"` // ms
	AuthRequired bool  `json:"auth_required"`
	TLS          bool  `json:"tls_v1"`
	Snappy       bool  `json:"snappy"`
	Deflate      bool  `json:"deflate"`
}

func appendBody(dst, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...)
}

func appendIdentify(dst []byte, id identify) []byte {
	body, err := json.Marshal(id)
	if err != nil {
		panic("BUG: cannot encode strings and numbers as JSON: " + err.Error())
	}
	return appendBody(append(dst, "IDENTIFY\n"...), body)
}

// appendPublish writes the command of a call.
func appendPublish(dst []byte, c *call) []byte {
	o := &c.out
	extended := c.extended()
	switch {
	case len(o.Bodies) > 0 && extended:
		dst = append(dst, "MPUB_EXT "...)
	case len(o.Bodies) > 0:
		dst = append(dst, "MPUB "...)
	case extended:
		dst = append(dst, "PUB_EXT "...)
	case o.Delay > 0:
		dst = append(dst, "DPUB "...)
	default:
		dst = append(dst, "PUB "...)
	}
	dst = append(dst, o.Topic...)
	if o.Delay > 0 {
		dst = strconv.AppendInt(append(dst, ' '), roundUp(o.Delay), 10)
	}
	if n, ok := o.Partition.number(); ok {
		dst = strconv.AppendInt(append(dst, ' '), int64(n), 10)
	}
	dst = append(dst, '\n')
	switch {
	case len(o.Bodies) == 0 && extended:
		return appendExtended(dst, c, 0, o.Body)
	case len(o.Bodies) == 0:
		return appendBody(dst, o.Body)
	case extended:
		return appendExtendedBatch(dst, c)
	}
	size := 4
	for _, b := range c.out.Bodies {
		size += 4 + len(b)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.out.Bodies)))
	for _, b := range c.out.Bodies {
		dst = appendBody(dst, b)
	}
	return dst
}

// appendExtendedBatch writes the body of MPUB_EXT.
func appendExtendedBatch(dst []byte, c *call) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.out.Bodies)))
	for i, b := range c.out.Bodies {
		dst = appendExtended(dst, c, i, b)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4)) //nolint:gosec // as the protocol has it
	return dst
}

// roundUp returns a duration in ms, rounded up.
func roundUp(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// doubled returns twice a duration, at most a maximum. It does not overflow.
func doubled(d, most time.Duration) time.Duration {
	if d >= most-d {
		return most
	}
	return 2 * d
}

// command is a command other than a publish. Its name determines which fields are used.
type command struct {
	name  string
	id    messageID
	delay time.Duration
	count int
}

// appendTo writes the command.
func (c command) appendTo(dst []byte) []byte {
	dst = append(dst, c.name...)
	switch c.name {
	case cmdRDY:
		dst = strconv.AppendInt(append(dst, ' '), int64(c.count), 10)
	case cmdFIN, cmdTOUCH:
		dst = append(append(dst, ' '), c.id[:]...)
	case cmdREQ:
		dst = append(append(append(dst, ' '), c.id[:]...), ' ')
		dst = strconv.AppendInt(dst, roundUp(c.delay), 10)
	}
	return append(dst, '\n')
}
