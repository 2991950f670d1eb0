package deadletter

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Channel is the channel of a dead-letter topic that keeps dead letters until they are
// redriven or purged.
const Channel = "redrive"

// The reasons why a message becomes a dead letter.
const (
	reasonMaxAttempts = "max-attempts" // it used up its attempts
	ReasonExpired     = "expired"      // its time to live has passed
)

// Origin says where a dead letter comes from. It is the value of the key dead_letter in the header
// of the message.
type Origin api.DeadLetterOrigin

// letterHeader is the header of a dead letter.
type letterHeader struct {
	Origin *Origin `json:"dead_letter"`
}

// mostTimes is how often a message becomes a dead letter, unless it is redriven. The dead-letter topics of
// some channels may form a cycle, in which a message that always fails would circulate forever.
const mostTimes = 16

// errNotDeadLetter is returned for a message without an Origin.
var errNotDeadLetter = errors.New("message is not a dead letter: its header names no origin")

// AppendHeader appends the header of a dead letter. It omits the message's own header if that does
// not fit or is not JSON.
func (o Origin) AppendHeader(dst []byte) ([]byte, error) {
	if !json.Valid(o.Header) {
		o.Header = nil
	}
	o = o.Text()
	text, err := json.Marshal(letterHeader{&o})
	if err == nil && len(text) > topic.MaxHeader {
		o.Header, o.HeaderBase64 = nil, nil
		text, err = json.Marshal(letterHeader{&o})
	}
	if err != nil {
		return nil, fmt.Errorf("encode dead letter header: %w", err)
	}
	return append(dst, text...), nil
}

// Text returns the origin with a header that is not UTF-8 in HeaderBase64 instead of Header, as JSON must have
// it.
func (o Origin) Text() Origin {
	if jsonbytes.Check(o.Header) != nil {
		o.Header, o.HeaderBase64 = nil, o.Header
	}
	return o
}

// ReadOrigin reads the origin of a dead letter from its header. The message's own header is in Header, also if
// it is not UTF-8.
func ReadOrigin(text []byte) (Origin, error) {
	var h letterHeader
	if len(text) == 0 {
		return Origin{}, errNotDeadLetter
	}
	if err := jsonbytes.Unmarshal(text, &h); err != nil {
		return Origin{}, fmt.Errorf("%w: %w", errNotDeadLetter, err)
	}
	if h.Origin == nil || h.Origin.Topic == "" || h.Origin.Channel == "" || h.Origin.Partition < 0 {
		return Origin{}, errNotDeadLetter
	}
	if o := h.Origin; len(o.HeaderBase64) > 0 {
		o.Header, o.HeaderBase64 = o.HeaderBase64, nil
	}
	return *h.Origin, nil
}

// chosen reports whether a filter chooses the message that became a dead letter. The filter sees
// the message's own header with dead_letter added, its key, and the fields of the Origin.
func (o *Origin) chosen(f *filter.Filter, m *topic.Message) bool {
	own := o.Header
	o.Header = nil
	about, _ := json.Marshal(o) // cannot fail: it contains only texts and numbers
	o.Header = own
	all := []byte{'{'}
	if members, ok := jsonbytes.Members(own); ok { // otherwise there are no fields
		for name, value := range members {
			all = append(append(append(jsonbytes.AppendText(all, name), ':'), value...), ',')
		}
	}
	all = append(append(append(all, `"dead_letter":`...), about...), '}')
	chosen, err := f.Match(&filter.Message{
		Header: all, Key: m.Key, Tag: header.TagOf(own), Partition: o.Partition, Timestamp: time.Unix(0, o.FirstTimestampNS),
		Attempts: int(o.Attempts), Size: len(m.Body),
	})
	return chosen && err == nil
}
