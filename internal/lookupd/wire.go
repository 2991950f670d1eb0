package lookupd

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// The V1 protocol: four magic bytes, then lines, some with a sized body. An
// answer is
//
//	| size (4, big endian) | data (size) |
//
// without a type: an error is known by its text alone.
const (
	magic       = "  V1"
	okAnswer    = "OK"
	maxLine     = 16 << 10 // bytes of a command line
	maxIdentify = 64 << 10 // bytes of an IDENTIFY body
	maxAnswer   = 1 << 20  // bytes of an answer that the announcer reads
)

// Self is how a lookup daemon introduces itself in answer to IDENTIFY.
type Self struct {
	TCPPort          int    `json:"tcp_port"`
	HTTPPort         int    `json:"http_port"`
	Version          string `json:"version"`
	BroadcastAddress string `json:"broadcast_address"`
	Hostname         string `json:"hostname"`
}

// introduction is the body of IDENTIFY.
type introduction struct {
	Version          string `json:"version"`
	TCPPort          int    `json:"tcp_port"`
	HTTPPort         int    `json:"http_port"`
	Hostname         string `json:"hostname"`
	BroadcastAddress string `json:"broadcast_address"`
	TopologyZone     string `json:"topology_zone"`
	TopologyRegion   string `json:"topology_region"`
	DistributedID    string `json:"distributed_id,omitempty"`
}

func writeAnswer(w io.Writer, data []byte) error {
	packet := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(data)), uint32(len(data)))
	_, err := w.Write(append(packet, data...))
	return err
}

func readAnswer(r io.Reader) ([]byte, error) {
	return readSized(r, maxAnswer)
}

var errSize = errors.New("size out of bounds")

// readSized reads a size and as many bytes. Nothing is allocated for bytes that do not arrive: the
// buffer grows with the input.
func readSized(r io.Reader, limit uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > limit {
		return nil, errSize
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && uint32(len(data)) < size {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}

// readCommand reads one line and splits it into words.
func readCommand(r *bufio.Reader) ([]string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(line)), " "), nil
}

// identifyCommand returns the IDENTIFY command.
func identifyCommand(in introduction) ([]byte, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode IDENTIFY: %w", err)
	}
	command := append([]byte("IDENTIFY\n"), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(command[len(command)-4:], uint32(len(body)))
	return append(command, body...), nil
}

func joinHostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
