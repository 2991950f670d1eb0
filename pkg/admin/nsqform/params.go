package nsqform

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Params are the parameters of a request: those of its query string.
type Params struct{ url.Values }

// ReadParams parses the query string. A bad one is INVALID_REQUEST.
func ReadParams(r *http.Request) (Params, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Params{}, Refuse("INVALID_REQUEST")
	}
	return Params{values}, nil
}

// Lookup returns the first value of a parameter, and whether there is one.
func (p Params) Lookup(key string) (string, bool) {
	v, ok := p.Values[key]
	if !ok || len(v) == 0 {
		return "", false
	}
	return v[0], true
}

// Needed returns the parameter, or the error of the given word without it.
func (p Params) Needed(key, word string) (string, error) {
	v, ok := p.Lookup(key)
	if !ok {
		return "", Refuse(word)
	}
	return v, nil
}

// Flag returns a boolean parameter, or absent if it is missing, or neither true nor false.
func (p Params) Flag(key string, absent bool) bool {
	v, ok := p.Lookup(key)
	if !ok {
		return absent
	}
	switch v {
	case "true", "1":
		return true
	case "false", "0":
		return false
	}
	return absent
}

// Partition returns the parameter partition, AnyPartition without it.
func (p Params) Partition() (int, error) {
	v, ok := p.Lookup("partition")
	if !ok || v == "" || v == "**" { // as the tools of youzan's nsq write "all"
		return host.AnyPartition, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < host.AnyPartition {
		return 0, Refuse("INVALID_PARTITION")
	}
	return n, nil
}

// PartitionOf returns the parameter partition of a request on t, AnyPartition
// without it. One that the topic does not have is PARTITION_NOT_FOUND.
func (p Params) PartitionOf(t *meta.Topic) (int, error) {
	n, err := p.Partition()
	if err == nil && n >= len(t.Partitions) {
		err = fmt.Errorf("%w: %s/%d", failure.PartitionNotFound, t.Name, n)
	}
	return n, err
}

// TopicParam returns the name of a topic to use or create. The error for an invalid one is
// MISSING_ARG_TOPIC or the word invalid.
func TopicParam(r *http.Request, invalid string) (Params, string, error) {
	return nameParam(r, meta.ValidTopicName, invalid)
}

func nameParam(r *http.Request, valid func(string) bool, invalid string) (Params, string, error) {
	p, err := ReadParams(r)
	if err != nil {
		return p, "", err
	}
	topic, err := p.Needed("topic", "MISSING_ARG_TOPIC")
	if err == nil && !valid(topic) {
		err = Refuse(invalid)
	}
	return p, topic, err
}

// NewChannelParams returns the names of a topic and of a channel to create.
func NewChannelParams(r *http.Request) (topic, channel string, err error) {
	return pairParams(r, meta.ValidTopicName)
}

// ChannelParams returns the names of a topic and a channel that may exist.
func ChannelParams(r *http.Request) (topic, channel string, err error) {
	return pairParams(r, meta.NSQName)
}

func pairParams(r *http.Request, valid func(string) bool) (topic, channel string, err error) {
	p, topic, err := nameParam(r, valid, "INVALID_ARG_TOPIC")
	if err != nil {
		return "", "", err
	}
	channel, err = p.Needed("channel", "MISSING_ARG_CHANNEL")
	if err == nil && !valid(channel) {
		err = Refuse("INVALID_ARG_CHANNEL")
	}
	return topic, channel, err
}

// ExistingTopic returns the parameter topic without validation. A name without a topic, valid or
// not, is reported as missing by the caller.
func ExistingTopic(r *http.Request) (string, error) {
	p, err := ReadParams(r)
	if err != nil {
		return "", err
	}
	return p.Needed("topic", "MISSING_ARG_TOPIC")
}
