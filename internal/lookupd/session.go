package lookupd

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/meta"
)

// session answers the commands of one connection. It is used by one goroutine.
type session struct {
	dir    *Directory
	self   Self
	remote string
	r      *bufio.Reader
	now    func() time.Time

	id          Session // 0 until IDENTIFY
	partitioned bool    // REGISTER and UNREGISTER carry a partition
}

// refusal is an error that the session reports to the peer, after which the
// connection ends.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// next reads a command and returns its answer. An error ends the connection;
// a *refusal is to be answered with its text first.
func (s *session) next() ([]byte, error) {
	words, err := readCommand(s.r)
	if err != nil {
		return nil, err
	}
	switch words[0] {
	case "PING":
		s.dir.Seen(s.id, s.now())
		return []byte(okAnswer), nil
	case "IDENTIFY":
		return s.identify()
	case "REGISTER", "UNREGISTER":
		return s.register(words[0], words[1:])
	}
	return nil, refuse("E_INVALID invalid command %s", words[0])
}

func (s *session) identify() ([]byte, error) {
	if s.id != 0 {
		return nil, refuse("E_INVALID cannot IDENTIFY again")
	}
	body, err := readSized(s.r, maxIdentify)
	switch {
	case errors.Is(err, errSize):
		return nil, refuse("E_BAD_BODY IDENTIFY body too big")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, refuse("E_BAD_BODY IDENTIFY failed to read body")
	case err != nil:
		return nil, refuse("E_BAD_BODY IDENTIFY failed to read body size")
	}
	var in introduction
	if err := jsonbytes.Unmarshal(body, &in); err != nil {
		return nil, refuse("E_BAD_BODY IDENTIFY failed to decode JSON body")
	}
	if in.BroadcastAddress == "" || in.TCPPort == 0 || in.HTTPPort == 0 || in.Version == "" {
		return nil, refuse("E_BAD_BODY IDENTIFY missing fields")
	}
	s.partitioned = in.DistributedID != "" || strings.Contains(in.Version, "HA")
	s.id = s.dir.Join(nsqform.Producer{
		RemoteAddress: s.remote, Hostname: in.Hostname, BroadcastAddress: in.BroadcastAddress,
		TCPPort: in.TCPPort, HTTPPort: in.HTTPPort, Version: in.Version,
		TopologyZone: in.TopologyZone, TopologyRegion: in.TopologyRegion,
	}, s.now())
	answer, err := json.Marshal(s.self)
	if err != nil {
		return nil, fmt.Errorf("encode IDENTIFY response: %w", err)
	}
	return answer, nil
}

func (s *session) register(command string, params []string) ([]byte, error) {
	if s.id == 0 {
		return nil, refuse("E_INVALID client must IDENTIFY")
	}
	if len(params) == 0 {
		return nil, refuse("E_INVALID %s insufficient number of params", command)
	}
	topic, channel := params[0], ""
	rest := params[1:]
	if len(rest) > 0 && (s.partitioned || len(rest) > 1) {
		if _, err := strconv.ParseUint(rest[0], 10, 32); err != nil {
			return nil, refuse("E_BAD_PARTITIONID %s partition %q is not valid", command, rest[0])
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		channel = rest[0]
	}
	if !meta.NSQName(topic) {
		return nil, refuse("E_BAD_TOPIC %s topic name %q is not valid", command, topic)
	}
	if channel != "" && !meta.NSQName(channel) {
		return nil, refuse("E_BAD_CHANNEL %s channel name %q is not valid", command, channel)
	}
	if command == "UNREGISTER" {
		s.dir.Unregister(s.id, topic, channel)
	} else if err := s.dir.Register(s.id, topic, channel); err != nil {
		return nil, refuse("E_INVALID %s %v", command, err)
	}
	return []byte(okAnswer), nil
}
