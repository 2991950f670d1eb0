package peer

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/brokerd/brokerd/internal/fields"
)

// Node is the stable name of a node: 1 to 255 bytes of visible ASCII.
type Node string

// Class is a kind of traffic. Each has connections of its own, so that bulk
// never delays votes.
type Class byte

// The classes. Their values are part of the format.
const (
	ClassRaft        Class = 'R' // passed on as it is: the consensus library frames it
	ClassReplication Class = 'D' // batches and positions
	ClassForward     Class = 'F' // requests of clients, to the partition's leader
	ClassPing        Class = 'P' // which node answers; works before there is a cluster
	ClassForm        Class = 'J' // forming and joining a cluster; works before the node is a member
)

// String returns the class's name.
func (c Class) String() string {
	switch c {
	case ClassRaft:
		return "raft"
	case ClassReplication:
		return "replication"
	case ClassForward:
		return "forward"
	case ClassPing:
		return "ping"
	case ClassForm:
		return "formation"
	}
	return fmt.Sprintf("class %#02x", byte(c))
}

// visits reports whether connections of the class are open to nodes that are not members: they
// carry little and end soon.
func (c Class) visits() bool { return c == ClassPing || c == ClassForm }

// Reason is why a node does not talk to another. The values are part of the
// format; a reader shows one that it does not know by its number.
type Reason uint8

// The reasons.
const (
	ReasonNone         Reason = iota // not refused
	ReasonVersion                    // no protocol version in common
	ReasonWrongCluster               // another cluster's id
	ReasonUnknownNode                // not a member
	ReasonSelf                       // the node dialled itself
	ReasonShuttingDown               // the node stops or drains
	ReasonWrongNode                  // another node lives at this address
	ReasonNameTaken                  // the dialer has the name of the node it dialled
	ReasonCertificate                // the certificate is not for the node's name
	ReasonClass                      // this class is not served here
	ReasonSecret                     // the other side did not prove that it has the cluster's secret
)

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "not refused"
	case ReasonVersion:
		return "incompatible version"
	case ReasonWrongCluster:
		return "wrong cluster"
	case ReasonUnknownNode:
		return "unknown node"
	case ReasonSelf:
		return "node connected to itself"
	case ReasonShuttingDown:
		return "shutting down"
	case ReasonWrongNode:
		return "a different node at this address"
	case ReasonNameTaken:
		return "node id in use by another node"
	case ReasonCertificate:
		return "certificate does not match the node id"
	case ReasonClass:
		return "class not served"
	case ReasonSecret:
		return "cluster secret mismatch"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Versions of the protocol that this code speaks.
const (
	minVersion = 1
	maxVersion = 1
)

// Hello is what each side sends first about itself.
type Hello struct {
	MinVersion, MaxVersion uint16 // of the protocol, both included
	Class                  Class
	Incarnation            uint64 // of the sending process
	Session                uint64 // of the connection; the dialer chooses it, the answer repeats it
	Proves                 bool   // both sides prove that they have the cluster's secret
	Nonce                  nonce  // chosen at random for this connection if Proves
	ClusterID              string // "": the node is in no cluster yet
	Node                   Node   // the sender
	To                     Node   // the node that the dialer wants; "": any
	Build                  string // version of the software, for people
}

// The layout of a hello; docs/format/peer.md draws it.
const (
	helloMagic      = "BRKD"
	helloHeader     = len(helloMagic) + 2 + 4 // magic, size, checksum
	maxHelloBody    = 2048
	helloReserved   = 8
	helloFixed      = 1 + 2 + 2 + 1 + helloReserved + 8 + 8 + 1 + nonceBytes
	typeHello       = 1
	typeRefusal     = 2
	typeProof       = 3
	typeWelcome     = 4
	maxHelloString  = 255
	firstTLSByte    = 0x16
	visibleFrom     = 0x21
	printableFrom   = 0x20
	printableTo     = 0x7e
	unprintableByte = '?'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeHello encodes a hello. Strings must have been validated.
func encodeHello(h *Hello) []byte {
	body := make([]byte, 0, helloFixed+4+len(h.ClusterID)+len(h.Node)+len(h.To)+len(h.Build))
	body = append(body, typeHello)
	body = binary.LittleEndian.AppendUint16(body, h.MinVersion)
	body = binary.LittleEndian.AppendUint16(body, h.MaxVersion)
	body = append(body, byte(h.Class))
	body = append(body, make([]byte, helloReserved)...)
	body = binary.LittleEndian.AppendUint64(body, h.Incarnation)
	body = binary.LittleEndian.AppendUint64(body, h.Session)
	proves := byte(0)
	if h.Proves {
		proves = 1
	}
	body = append(append(body, proves), h.Nonce[:]...)
	for _, s := range []string{h.ClusterID, string(h.Node), string(h.To), h.Build} {
		body = appendString(body, s)
	}
	return encodeHelloBody(body)
}

// encodeRefusal encodes a refusal, with the protocol versions of this node.
func encodeRefusal(r Reason, text string) []byte {
	body := []byte{typeRefusal}
	body = binary.LittleEndian.AppendUint16(body, minVersion)
	body = binary.LittleEndian.AppendUint16(body, maxVersion)
	body = append(body, byte(r))
	return encodeHelloBody(appendString(body, printable(text)))
}

func encodeHelloBody(body []byte) []byte {
	dst := []byte(helloMagic)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(body)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(body, castagnoli))
	return append(dst, body...)
}

func appendString(dst []byte, s string) []byte {
	s = s[:min(len(s), maxHelloString)]
	return append(append(dst, byte(len(s))), s...)
}

// readHello reads a hello, and no byte after it. It returns a refusal as a *RefusedError.
func readHello(r io.Reader) (*Hello, error) {
	body, err := readHelloBody(r)
	if err != nil {
		return nil, err
	}
	return parseHello(body)
}

// readHelloBody reads one message of the handshake, and no byte after it. It returns the message's
// body after it has checked the checksum.
func readHelloBody(r io.Reader) ([]byte, error) {
	var header [helloHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, fmt.Errorf("read hello: %w", err)
	}
	if string(header[:len(helloMagic)]) != helloMagic {
		if header[0] == firstTLSByte {
			return nil, fmt.Errorf("%w: remote uses TLS, which is not configured on this node", errHello)
		}
		return nil, fmt.Errorf("%w: unexpected first bytes %q", errHello, header[:len(helloMagic)])
	}
	size := int(binary.LittleEndian.Uint16(header[4:]))
	if size > maxHelloBody {
		return nil, fmt.Errorf("%w: %d bytes, limit is %d", errHello, size, maxHelloBody)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read hello: %w", noEOF(err))
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(header[6:]) {
		return nil, fmt.Errorf("%w: checksum mismatch", errHello)
	}
	return body, nil
}

// noEOF turns the end of the stream in the middle of a message into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // io.ReadFull returns it unwrapped
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseHello reads a checked body. It ignores bytes after the known fields: a later version wrote
// them.
func parseHello(body []byte) (*Hello, error) {
	if len(body) == 0 {
		return nil, fmt.Errorf("%w: empty", errHello)
	}
	switch body[0] {
	case typeRefusal:
		return nil, parseRefusal(body)
	case typeHello:
	default:
		return nil, fmt.Errorf("%w: unknown type %d", errHello, body[0])
	}
	r := fields.Reader{Rest: body[1:]}
	h := &Hello{MinVersion: r.Uint16(), MaxVersion: r.Uint16(), Class: Class(r.Uint8())}
	r.Next(helloReserved)
	h.Incarnation, h.Session = r.Uint64(), r.Uint64()
	proves := r.Uint8()
	h.Proves = proves == 1
	copy(h.Nonce[:], r.Next(nonceBytes))
	h.ClusterID, h.Node, h.To, h.Build = stringIn(&r), Node(stringIn(&r)), Node(stringIn(&r)), stringIn(&r)
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errHello, err)
	}
	if h.MinVersion > h.MaxVersion || h.Node == "" || proves > 1 ||
		!within(h.ClusterID, visibleFrom) || !within(string(h.Node), visibleFrom) || !within(string(h.To), visibleFrom) || !within(h.Build, printableFrom) {
		return nil, fmt.Errorf("%w: invalid names or versions", errHello)
	}
	return h, nil
}

func parseRefusal(body []byte) error {
	r := fields.Reader{Rest: body[1:]}
	lowest, highest, reason, text := r.Uint16(), r.Uint16(), Reason(r.Uint8()), stringIn(&r)
	if r.Err() != nil || reason == ReasonNone {
		return fmt.Errorf("%w: invalid refusal", errHello)
	}
	if reason == ReasonVersion {
		text = fmt.Sprintf("remote supports versions %d to %d, this node %d to %d", lowest, highest, minVersion, maxVersion)
	}
	return &RefusedError{Reason: reason, Text: printable(text)}
}

// stringIn reads a string of appendString.
func stringIn(r *fields.Reader) string { return string(r.Next(int(r.Uint8()))) }

// within reports whether s is ASCII and no byte is below from: bytes from an unknown sender may end
// up in a log.
func within(s string, from byte) bool {
	for i := range len(s) {
		if s[i] < from || s[i] > printableTo {
			return false
		}
	}
	return true
}

func printable(s string) string {
	if within(s, printableFrom) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if c < printableFrom || c > printableTo {
			b[i] = unprintableByte
		}
	}
	return string(b)
}
