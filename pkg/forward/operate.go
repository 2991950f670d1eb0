package forward

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Converge asks a node to apply the metadata of a topic, at least as of an index, to the
// partitions it leads, and to have the start positions of new channels on every in-sync replica
// before it responds.
type Converge struct {
	Topic string
	Index uint64 // of Raft
}

// encodeConverge returns the payload of a Converge.
func encodeConverge(m Converge) [][]byte {
	return [][]byte{binary.AppendUvarint(appendString(nil, m.Topic), m.Index)}
}

// Decode reads the payload of a Converge.
func (m *Converge) Decode(payload []byte) error {
	r := read(payload)
	*m = Converge{Topic: r.Text(), Index: r.Uvarint()}
	return r.End(errMalformed, "converge")
}

// Operate asks for an operation by its name. Both its arguments and its answer
// are JSON.
type Operate struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

// encodeOperate returns the payload of an Operate with arguments that are
// marshalled.
func encodeOperate(op string, args any) ([][]byte, error) {
	m := Operate{Op: op}
	var err error
	if m.Args, err = json.Marshal(args); err != nil {
		return nil, fmt.Errorf("encode arguments of operation %q: %w", op, err)
	}
	p, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("operation %q: %w", op, err)
	}
	return [][]byte{p}, nil
}

// Decode reads the payload of an Operate.
func (m *Operate) Decode(payload []byte) error {
	if err := json.Unmarshal(payload, m); err != nil {
		return fmt.Errorf("%w: operate: %w", errMalformed, err)
	}
	return nil
}
