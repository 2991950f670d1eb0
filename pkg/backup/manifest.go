package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Format is the version of the format that this build writes and reads.
const Format = 1

// ErrNewerFormat refuses a backup of another format than this build reads.
var ErrNewerFormat = fate.Refuse("backup format not supported by this brokerctl; use the version that wrote it")

// errCorrupt is wrapped by the errors for what is not what was written.
var errCorrupt = errors.New("corrupt")

// corrupt returns an error for what is not what was written.
func corrupt(text string, args ...any) error {
	return fate.Mark(fmt.Errorf("%w: %w", errCorrupt, fmt.Errorf(text, args...)), fate.Corrupt)
}

// Manifest describes the content of a backup.
type Manifest struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Tool    string    `json:"tool"`    // the version of the program that made it
	Cluster string    `json:"cluster"` // the id of the cluster
	Topics  []Topic   `json:"topics"`  // by name
}

// Topic is a topic in a backup. Config and the channels' settings are as in /v1.
type Topic struct {
	Name       string          `json:"name"`
	FirstID    string          `json:"first_id"` // distinguishes it from an earlier topic of the name
	Paused     bool            `json:"paused,omitempty"`
	Config     json.RawMessage `json:"config"`
	Channels   []Channel       `json:"channels,omitempty"`
	Partitions []Partition     `json:"partitions"`
	Positions  *Chunk          `json:"positions,omitempty"` // lines of Position; nil: it has no channel
}

// Channel is the settings of a channel.
type Channel struct {
	Name     string          `json:"name"`
	Settings json.RawMessage `json:"settings"`
}

// Partition is the messages of a partition in [Start, End).
type Partition struct {
	Partition int     `json:"partition"`
	Start     uint64  `json:"start"`
	End       uint64  `json:"end"`
	Chunks    []Chunk `json:"chunks,omitempty"` // by offset
}

// Chunk refers to a chunk.
type Chunk struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"` // of the file
	Lines  int    `json:"lines"`
	First  uint64 `json:"first"` // of messages: the offset of the first
	End    uint64 `json:"end"`   // of messages: one past that of the last
	Full   bool   `json:"full,omitempty"`
	Last   string `json:"last,omitempty"` // of messages: the mark of the last
}

// Position is what a channel has still to deliver of one partition.
type Position struct {
	Channel   string      `json:"channel"`
	Partition int         `json:"partition"`
	Pending   [][2]uint64 `json:"pending,omitempty"` // [from, end), by offset: what is not finished
	Deferred  []Deferred  `json:"deferred,omitempty"`
}

// Deferred is a pending message that is not to be delivered before a time.
type Deferred struct {
	Seq uint64    `json:"seq"`
	Due time.Time `json:"due"`
}

// Message is a message of a partition.
type Message struct {
	Seq       uint64          `json:"seq"`
	ID        string          `json:"id"`
	Timestamp time.Time       `json:"timestamp"`
	Key       string          `json:"key,omitempty"`
	Headers   json.RawMessage `json:"headers,omitempty"`
	// HeadersBase64 are the headers if JSON text cannot represent their strings; Headers is absent then.
	HeadersBase64 []byte `json:"headers_base64,omitempty"`
	Dedup         string `json:"dedup,omitempty"`
	// KeyBase64 and DedupBase64 are set if Key or Dedup cannot represent the bytes, which are not UTF-8.
	KeyBase64   []byte     `json:"key_base64,omitempty"`
	DedupBase64 []byte     `json:"dedup_base64,omitempty"`
	TTLMS       int64      `json:"ttl_ms,omitempty"`
	DeliverAt   *time.Time `json:"deliver_at,omitempty"`
	TraceID     string     `json:"trace_id_hex,omitempty"`
	Body        []byte     `json:"body"`
}

// Mark distinguishes the message from others with its offset in another history of the partition.
func (m *Message) Mark() string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d %d\n", m.Seq, m.Timestamp.UnixNano()) // to memory
	_, _ = h.Write(m.Body)
	return hex.EncodeToString(h.Sum(nil))
}

// Count returns how many messages a partition holds.
func (p *Partition) Count() (n int) {
	for _, c := range p.Chunks {
		n += c.Lines
	}
	return n
}

// Totals returns how many messages a backup holds, and how many bytes its chunks take, those that it shares with
// others included.
func (m *Manifest) Totals() (messages int, size int64) {
	for i := range m.Topics {
		for k := range m.Topics[i].Partitions {
			messages += m.Topics[i].Partitions[k].Count()
		}
	}
	for _, c := range m.chunks() {
		size += c.Bytes
	}
	return messages, size
}

// chunks returns all chunks of a backup.
func (m *Manifest) chunks() (all []Chunk) {
	for i := range m.Topics {
		t := &m.Topics[i]
		for k := range t.Partitions {
			all = append(all, t.Partitions[k].Chunks...)
		}
		if t.Positions != nil {
			all = append(all, *t.Positions)
		}
	}
	return all
}

// Topic returns a topic of a backup, or nil.
func (m *Manifest) Topic(name string) *Topic {
	for i := range m.Topics {
		if m.Topics[i].Name == name {
			return &m.Topics[i]
		}
	}
	return nil
}

// encode returns a manifest as it is stored: JSON in one line, and its SHA-256 in another.
func (m *Manifest) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return fmt.Appendf(text, "\nsha256 %s\n", hex.EncodeToString(sum[:])), nil
}

// decodeManifest reads what encode returned.
func decodeManifest(data []byte) (*Manifest, error) {
	text, rest, ok := bytes.Cut(data, []byte("\n"))
	sum := sha256.Sum256(text)
	if !ok || string(rest) != "sha256 "+hex.EncodeToString(sum[:])+"\n" {
		return nil, corrupt("manifest checksum mismatch")
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, corrupt("manifest: %w", err)
	}
	if m.Format != Format {
		return nil, fmt.Errorf("format %d: %w", m.Format, ErrNewerFormat)
	}
	return m, nil
}
