package meta

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// Command is one change of the metadata. Only this package implements it: a command unknown to
// some nodes would make them diverge.
type Command interface {
	// validate checks what can be checked without a State: names, ranges, sizes.
	validate() error
	// apply changes s, or returns an error and leaves it unchanged. s.index is already the
	// command's. It fills in r.
	apply(s *State, r *Result) error
}

// Validate checks of a command what can be checked without a State: names, ranges, sizes.
func Validate(c Command) error { return c.validate() }

// kind is a type of commands as it is stored.
type kind struct {
	number byte // never reused
	name   string
	is     func(Command) bool
	decode func([]byte) (Command, error)
}

// kinds is the table of the known commands.
var kinds = []kind{
	kindOf[InitCluster](1, "init-cluster"),
	kindOf[SetSettings](2, "set-settings"),
	kindOf[FinalizeUpgrade](3, "finalize-upgrade"),
	kindOf[CatchUp](4, "catch-up"),
	kindOf[NodeStarted](10, "node-started"),
	kindOf[SetNodeState](11, "set-node-state"),
	kindOf[RemoveNode](12, "remove-node"),
	kindOf[SetNodeIntent](13, "set-node-intent"),
	kindOf[SetNodeDisk](14, "set-node-disk"),
	kindOf[CreateTopic](20, "create-topic"),
	kindOf[AlterTopic](21, "alter-topic"),
	kindOf[AddPartitions](22, "add-partitions"),
	kindOf[DeleteTopic](23, "delete-topic"),
	kindOf[PauseTopic](24, "pause-topic"),
	kindOf[FitTopic](25, "fit-topic"),
	kindOf[RestoreTopic](26, "restore-topic"),
	kindOf[PurgeTopics](27, "purge-topics"),
	kindOf[CreateChannel](30, "create-channel"),
	kindOf[DeleteChannel](31, "delete-channel"),
	kindOf[AlterChannel](32, "alter-channel"),
	kindOf[RecordAct](37, "record-act"),
	kindOf[SavePositions](38, "save-positions"),
	kindOf[DropSaved](39, "drop-saved"),
	kindOf[ElectLeaders](40, "elect-leaders"),
	kindOf[AlterISR](41, "alter-isr"),
	kindOf[StartReassign](42, "start-reassign"),
	kindOf[FinishReassign](43, "finish-reassign"),
	kindOf[ReportSuspects](44, "report-suspects"),
	kindOf[YieldLeader](45, "yield-leader"),
	kindOf[ChangeAccess](60, "change-access"),
}

func kindOf[T Command](number byte, name string) kind {
	return kind{
		number: number, name: name,
		is: func(c Command) bool { _, ok := c.(T); return ok },
		decode: func(body []byte) (Command, error) {
			var c T
			if err := DecodeStrict(body, &c); err != nil {
				return nil, err
			}
			return c, nil
		},
	}
}

// CatchUp changes nothing. A node that gets its result has applied all commands that were committed
// before it was proposed.
type CatchUp struct{}

func (CatchUp) validate() error { return nil }

func (CatchUp) apply(*State, *Result) error { return nil }

// known returns the row of a command, which has one: only the types of the table are commands.
func known(c Command) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.is(c) })]
}

// NameOf names the type of a command, such as create-topic.
func NameOf(c Command) string { return known(c).name }

// commandVersion is the version of the encoding that this build writes, and the newest that it
// reads. Every change that alters a command's meaning for an older build, including a new field,
// raises it.
const commandVersion = 2

// The versions: a command without a time, and one with the time at which it was proposed.
const (
	untimedVersion = 1
	timedVersion   = 2
)

// MaxCommandBytes is the maximum size of an encoded command.
const MaxCommandBytes = 1 << 20

const (
	commandHeader  = 2
	commandTime    = 8 // of a timed command, after the header
	commandTrailer = 4
)

// EncodeCommandAt returns a command as it is stored. At is when it is proposed, ns since 1970; with 0
// it has version 1, without the time, else version 2:
//
//	+---------+------+-------------+-----------+------------------------------+
//	| version | kind | time, u64le | JSON body | CRC-32C of all before, u32le |
//	+---------+------+-------------+-----------+------------------------------+
//
// One that would be larger than MaxCommandBytes is refused.
func EncodeCommandAt(c Command, at int64) ([]byte, error) {
	k := known(c)
	body, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", k.name, err)
	}
	if len(body)+commandHeader+commandTime+commandTrailer > MaxCommandBytes {
		return nil, fmt.Errorf("%w: %s of %d bytes", failure.CommandTooLarge, k.name, len(body))
	}
	out := make([]byte, 0, len(body)+commandHeader+commandTime+commandTrailer)
	if at == 0 {
		out = append(out, untimedVersion, k.number)
	} else {
		out = append(out, timedVersion, k.number)
		out = binary.LittleEndian.AppendUint64(out, uint64(at))
	}
	out = append(out, body...)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli)), nil
}

// DecodeCommand decodes a command. The error wraps ErrCorrupt if the bytes are damaged, and
// ErrUnknownCommand if a newer program wrote them. The command retains no part of data.
func DecodeCommand(data []byte) (Command, error) {
	n := len(data) - commandTrailer
	if n < commandHeader || len(data) > MaxCommandBytes {
		return nil, fmt.Errorf("%w: truncated command, %d bytes", ErrCorrupt, len(data))
	}
	if crc32.Checksum(data[:n], castagnoli) != binary.LittleEndian.Uint32(data[n:]) {
		return nil, fmt.Errorf("%w: command checksum mismatch", ErrCorrupt)
	}
	version, number := data[0], data[1]
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.number == number })
	if version == 0 || version > commandVersion || i < 0 {
		return nil, fmt.Errorf("%w: kind %d, version %d", ErrUnknownCommand, number, version)
	}
	begin := commandHeader
	if version == timedVersion {
		if begin += commandTime; begin > n {
			return nil, fmt.Errorf("%w: truncated command, %d bytes", ErrCorrupt, len(data))
		}
	}
	c, err := kinds[i].decode(data[begin:n])
	if err != nil {
		// The checksum is correct, so a program that knew more fields than this one wrote it.
		return nil, fmt.Errorf("%w: %s: %w", ErrUnknownCommand, kinds[i].name, err)
	}
	return c, nil
}

// StampCommand sets when a command accepted by DecodeCommand is proposed, ns since 1970. A command
// without a time stays so.
func StampCommand(data []byte, at int64) {
	if CommandTime(data) != 0 {
		n := len(data) - commandTrailer
		binary.LittleEndian.PutUint64(data[commandHeader:], uint64(at))
		binary.LittleEndian.PutUint32(data[n:], crc32.Checksum(data[:n], castagnoli))
	}
}

// CommandTime returns when a command accepted by DecodeCommand was proposed, ns since 1970; 0:
// unknown.
func CommandTime(data []byte) int64 {
	if len(data) < commandHeader+commandTime+commandTrailer || data[0] != timedVersion {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(data[commandHeader:]))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DecodeStrict reads one JSON value that has no field unknown to v.
func DecodeStrict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("trailing data after the JSON value")
	}
	return nil
}

// Errors of stored bytes.
var (
	// ErrUnknownCommand: a command of a version or kind unknown to this build. The node must
	// stop: skipping it would make it diverge.
	ErrUnknownCommand = errors.New("unknown command; upgrade brokerd")
	// ErrCorrupt: the bytes are not what was written. It is marked fate.Corrupt.
	ErrCorrupt = fate.Mark(errors.New("metadata is corrupt"), fate.Corrupt)
	// ErrUnknownSnapshot: a snapshot in a format unknown to this build.
	ErrUnknownSnapshot = errors.New("unknown snapshot format; upgrade brokerd")
)
