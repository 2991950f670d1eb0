package topicfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// File is the settings of topics.
type File struct {
	Topics []Topic `json:"topics"`
}

// Topic is the settings of a topic. What is nil is not changed.
type Topic struct {
	Name     string          `json:"name"`
	Paused   *bool           `json:"paused,omitempty"`
	Config   api.ConfigPatch `json:"config"`
	Channels []Channel       `json:"channels,omitempty"`
}

// Channel is the settings of a channel. What is nil is not changed.
type Channel struct {
	Name   string           `json:"name"`
	Paused *bool            `json:"paused,omitempty"`
	Order  *string          `json:"order,omitempty"`
	Filter *string          `json:"filter,omitempty"`
	Policy *api.PolicyPatch `json:"policy,omitempty"`
}

// parse reads a file in YAML, of which JSON is a part. An unknown field is an error, and so is a second
// document.
func parse(text []byte) (*File, error) {
	var value, second any
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&value); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch err := documents.Decode(&second); {
	case err == nil:
		return nil, errors.New("it has more than one YAML document: put all topics into one")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	f := new(File)
	if err := d.Decode(f); err != nil {
		return nil, err
	}
	if len(f.Topics) == 0 {
		return nil, errors.New("it has no topics")
	}
	seen := map[string]bool{}
	for i := range f.Topics {
		t := &f.Topics[i]
		if t.Name == "" || seen[t.Name] {
			return nil, fmt.Errorf("topic %d has no name, or that of another one: %q", i+1, t.Name)
		}
		seen[t.Name] = true
		durations(&t.Config)
		for k, c := range t.Channels {
			if c.Name == "" || seen[t.Name+"/"+c.Name] {
				return nil, fmt.Errorf("channel %d of topic %s has no name, or that of another one: %q", k+1, t.Name, c.Name)
			}
			seen[t.Name+"/"+c.Name] = true
		}
	}
	return f, nil
}

// durations replaces durations in milliseconds by the others, which are compared.
func durations(p *api.ConfigPatch) {
	for _, x := range []struct {
		text **api.Duration
		ms   **int64
	}{
		{&p.SyncInterval, &p.SyncIntervalMS},
		{&p.Retention, &p.RetentionMS},
		{&p.DedupWindow, &p.DedupWindowMS},
		{&p.TTL, &p.TTLMS},
		{&p.RetentionTrash, &p.RetentionTrashMS},
	} {
		if *x.ms != nil && *x.text == nil {
			*x.text = new(api.Duration(**x.ms * 1e6))
		}
		*x.ms = nil
	}
}

// exported returns the settings of a topic and its channels.
func exported(t *api.Topic, channels []*api.Channel) Topic {
	out := Topic{Name: t.Name, Paused: &t.Paused, Config: t.Config.Patch()}
	for _, c := range channels {
		s := c.Settings()
		out.Channels = append(out.Channels, Channel{Name: c.Name, Paused: &c.Paused, Order: s.Order, Filter: s.Filter, Policy: s.Policy})
	}
	return out
}

// write writes a file as YAML.
func write(w io.Writer, f *File) error {
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(raw, &node); err != nil {
		return err
	}
	block(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&node); err != nil {
		return err
	}
	return e.Close()
}

// block takes the braces and quotes of JSON from a node and those below it. Strings that need quotes
// are quoted again when they are written.
func block(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}
