package admin

import (
	"fmt"
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
	if !ok || v == "" || v == "**" { // as the tools of youzan's nsq write "all"
		return broker.AnyPartition, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < broker.AnyPartition {
		return 0, refuse("INVALID_PARTITION")
	}
	return n, nil
}

// partitionOf returns the parameter partition of a request on t, AnyPartition
// without it. One that the topic does not have is PARTITION_NOT_FOUND.
func (p params) partitionOf(t *meta.Topic) (int, error) {
	n, err := p.partition()
	if err == nil && n >= len(t.Partitions) {
		err = fmt.Errorf("%w: %s/%d", broker.ErrPartitionNotFound, t.Name, n)
	}
	return n, err
}

// topicParam returns the name of a topic that is used or made. What is wrong with
// another is MISSING_ARG_TOPIC or the word invalid.
func topicParam(r *http.Request, invalid string) (params, string, error) {
	return nameParam(r, meta.ValidTopicName, invalid)
}

func nameParam(r *http.Request, valid func(string) bool, invalid string) (params, string, error) {
	p, err := readParams(r)
	if err != nil {
		return p, "", err
	}
	topic, err := p.needed("topic", "MISSING_ARG_TOPIC")
	if err == nil && !valid(topic) {
		err = refuse(invalid)
	}
	return p, topic, err
}

// newChannelParams returns the names of a topic and of a channel that is made.
func newChannelParams(r *http.Request) (topic, channel string, err error) {
	return pairParams(r, meta.ValidTopicName)
}

// channelParams returns the names of a topic and a channel that may exist.
func channelParams(r *http.Request) (topic, channel string, err error) {
	return pairParams(r, meta.NSQName)
}

func pairParams(r *http.Request, valid func(string) bool) (topic, channel string, err error) {
	p, topic, err := nameParam(r, valid, "INVALID_ARG_TOPIC")
	if err != nil {
		return "", "", err
	}
	channel, err = p.needed("channel", "MISSING_ARG_CHANNEL")
	if err == nil && !valid(channel) {
		err = refuse("INVALID_ARG_CHANNEL")
	}
	return topic, channel, err
}
