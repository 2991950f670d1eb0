package admin

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/meta"
)

// params are the parameters of a request: those of its query string.
type params struct{ url.Values }

// readParams parses the query string. A bad one is INVALID_REQUEST.
func readParams(r *http.Request) (params, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return params{}, refuse("INVALID_REQUEST")
	}
	return params{values}, nil
}

// lookup returns the first value of a parameter, and whether there is one.
func (p params) lookup(key string) (string, bool) {
	v, ok := p.Values[key]
	if !ok || len(v) == 0 {
		return "", false
	}
	return v[0], true
}

// needed returns the parameter, or the error of the given word without it.
func (p params) needed(key, word string) (string, error) {
	v, ok := p.lookup(key)
	if !ok {
		return "", refuse(word)
	}
	return v, nil
}

// flag returns a boolean parameter, or absent without it, or where it is
// neither true nor false.
func (p params) flag(key string, absent bool) bool {
	v, ok := p.lookup(key)
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

// partition returns the parameter partition, AnyPartition without it.
func (p params) partition() (int, error) {
	v, ok := p.lookup("partition")
	if !ok || v == "" {
		return broker.AnyPartition, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < broker.AnyPartition {
		return 0, refuse("INVALID_PARTITION")
	}
	return n, nil
}

// topicParam returns a valid topic name. What is wrong with another is
// MISSING_ARG_TOPIC or the word invalid.
func topicParam(r *http.Request, invalid string) (params, string, error) {
	p, err := readParams(r)
	if err != nil {
		return p, "", err
	}
	topic, err := p.needed("topic", "MISSING_ARG_TOPIC")
	if err == nil && !meta.ValidTopicName(topic) {
		err = refuse(invalid)
	}
	return p, topic, err
}

// channelParams returns the valid names of a topic and a channel.
func channelParams(r *http.Request) (topic, channel string, err error) {
	p, topic, err := topicParam(r, "INVALID_ARG_TOPIC")
	if err != nil {
		return "", "", err
	}
	channel, err = p.needed("channel", "MISSING_ARG_CHANNEL")
	if err == nil && !meta.ValidChannelName(channel) {
		err = refuse("INVALID_ARG_CHANNEL")
	}
	return topic, channel, err
}
