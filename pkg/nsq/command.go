package nsq

import (
	"errors"
	"math"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Verb is the kind of a command.
type Verb uint8

// The verbs of the standard protocol, and those of its extensions.
const (
	Unknown Verb = iota
	Identify
	Auth
	Sub
	Rdy
	Fin
	Req
	Touch
	Cls
	Nop
	Pub
	MPub
	DPub
	PubTrace
	MPubTrace
	PubExt
	MPubExt
	SubAdvanced
	SubOrdered
	CreateTopic
	// VerbCount is the number of verbs, for tables that count by verb.
	VerbCount
)

var verbs = [VerbCount]string{
	Unknown: "unknown", Identify: "IDENTIFY", Auth: "AUTH", Sub: "SUB", Rdy: "RDY", Fin: "FIN",
	Req: "REQ", Touch: "TOUCH", Cls: "CLS", Nop: "NOP", Pub: "PUB", MPub: "MPUB", DPub: "DPUB",
	PubTrace: "PUB_TRACE", MPubTrace: "MPUB_TRACE", PubExt: "PUB_EXT", MPubExt: "MPUB_EXT",
	SubAdvanced: "SUB_ADVANCED", SubOrdered: "SUB_ORDERED", CreateTopic: "INTERNAL_CREATE_TOPIC",
}

// String returns the verb as written on the wire.
func (v Verb) String() string {
	if v < VerbCount {
		return verbs[v]
	}
	return verbs[Unknown]
}

func parseVerb(word []byte) Verb {
	switch string(word) {
	case "FIN":
		return Fin
	case "PUB":
		return Pub
	case "MPUB":
		return MPub
	case "DPUB":
		return DPub
	case "RDY":
		return Rdy
	case "REQ":
		return Req
	case "TOUCH":
		return Touch
	case "NOP":
		return Nop
	case "SUB":
		return Sub
	case "CLS":
		return Cls
	case "IDENTIFY":
		return Identify
	case "AUTH":
		return Auth
	}
	return parseExtension(word)
}

// parseExtension parses the verbs that standard clients do not send.
func parseExtension(word []byte) Verb {
	switch string(word) {
	case "PUB_TRACE":
		return PubTrace
	case "MPUB_TRACE":
		return MPubTrace
	case "PUB_EXT":
		return PubExt
	case "MPUB_EXT":
		return MPubExt
	case "SUB_ADVANCED":
		return SubAdvanced
	case "SUB_ORDERED":
		return SubOrdered
	case "INTERNAL_CREATE_TOPIC":
		return CreateTopic
	}
	return Unknown
}

// maxParams is how many parameters of a command are kept. Further ones are only counted.
const maxParams = 4

// Command is a command line. Its slices belong to the Reader and are valid
// until the Reader's next call of Next.
type Command struct {
	Verb   Verb
	name   []byte
	params [maxParams][]byte
	n      int
}

// Name returns the first word of the line.
func (c *Command) Name() []byte { return c.name }

// Len returns the number of parameters on the line.
func (c *Command) Len() int { return c.n }

// Param returns parameter i, or nil if there is none. Parameters after the fourth are not kept.
func (c *Command) Param(i int) []byte {
	if i < 0 || i >= min(c.n, maxParams) {
		return nil
	}
	return c.params[i]
}

// ID returns the first parameter as a message id of 16 bytes, and whether it
// is that long.
func (c *Command) ID() (id [seq.HexLen]byte, ok bool) {
	p := c.Param(0)
	if len(p) != seq.HexLen {
		return id, false
	}
	return [seq.HexLen]byte(p), true
}

// split parses a line without its end. Words are separated by single spaces, so two spaces enclose
// an empty parameter.
func (c *Command) split(line []byte) {
	c.n, c.name = -1, nil
	start := 0
	for i := 0; i <= len(line); i++ {
		if i < len(line) && line[i] != ' ' {
			continue
		}
		c.add(line[start:i:i])
		start = i + 1
	}
	c.Verb = parseVerb(c.name)
}

func (c *Command) add(word []byte) {
	switch {
	case c.n < 0:
		c.name = word
	case c.n < maxParams:
		c.params[c.n] = word
	}
	c.n++
}

// Errors of ParseDecimal.
var (
	ErrNotDecimal = errors.New("not a decimal number")
	ErrOverflow   = errors.New("number too big")
)

// ParseDecimal parses a decimal number of at least one digit. It returns ErrNotDecimal, or
// ErrOverflow above the largest int64.
func ParseDecimal(text []byte) (int64, error) {
	if len(text) == 0 {
		return 0, ErrNotDecimal
	}
	var n int64
	over := false
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, ErrNotDecimal
		}
		d := int64(c - '0')
		if n > (math.MaxInt64-d)/10 {
			over = true
			continue
		}
		n = n*10 + d
	}
	if over {
		return 0, ErrOverflow
	}
	return n, nil
}
