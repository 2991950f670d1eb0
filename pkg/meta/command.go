package meta

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Command is one change of the metadata. Only this package implements it: a command unknown to
// some nodes would make them diverge.
type Command interface {
	// Kind returns the kind of the command.
	Kind() Kind
	// Validate checks what can be checked without a State: names, ranges, sizes.
	Validate() error
	// apply changes s, or returns an error and leaves it unchanged. s.index is already the
	// command's. It fills in r.
	apply(s *State, r *Result) error
}

// Kind numbers the commands as they are stored. A number is never reused.
type Kind uint8

// The kinds of commands.
const (
	KindInitCluster     Kind = 1
	KindSetSettings     Kind = 2
	KindFinalizeUpgrade Kind = 3
	KindNodeStarted     Kind = 10
	KindSetNodeState    Kind = 11
	KindRemoveNode      Kind = 12
	KindSetNodeIntent   Kind = 13
	KindSetNodeDisk     Kind = 14
	KindCreateTopic     Kind = 20
	KindAlterTopic      Kind = 21
	KindAddPartitions   Kind = 22
	KindDeleteTopic     Kind = 23
	KindPauseTopic      Kind = 24
	KindFitTopic        Kind = 25
	KindRestoreTopic    Kind = 26
	KindPurgeTopics     Kind = 27
	KindCreateChannel   Kind = 30
	KindDeleteChannel   Kind = 31
	KindAlterChannel    Kind = 32
	KindRecordAct       Kind = 37
	KindSavePositions   Kind = 38
	KindDropSaved       Kind = 39
	KindElectLeaders    Kind = 40
	KindAlterISR        Kind = 41
	KindStartReassign   Kind = 42
	KindFinishReassign  Kind = 43
	KindReportSuspects  Kind = 44
	KindYieldLeader     Kind = 45
	KindChangeAccess    Kind = 60
)

// kinds is the table of the known commands.
var kinds = map[Kind]struct {
	name   string
	decode func([]byte) (Command, error)
}{
	KindInitCluster:     {"init-cluster", decodeAs[InitCluster]},
	KindSetSettings:     {"set-settings", decodeAs[SetSettings]},
	KindFinalizeUpgrade: {"finalize-upgrade", decodeAs[FinalizeUpgrade]},
	KindNodeStarted:     {"node-started", decodeAs[NodeStarted]},
	KindSetNodeState:    {"set-node-state", decodeAs[SetNodeState]},
	KindRemoveNode:      {"remove-node", decodeAs[RemoveNode]},
	KindSetNodeIntent:   {"set-node-intent", decodeAs[SetNodeIntent]},
	KindSetNodeDisk:     {"set-node-disk", decodeAs[SetNodeDisk]},
	KindCreateTopic:     {"create-topic", decodeAs[CreateTopic]},
	KindAlterTopic:      {"alter-topic", decodeAs[AlterTopic]},
	KindAddPartitions:   {"add-partitions", decodeAs[AddPartitions]},
	KindDeleteTopic:     {"delete-topic", decodeAs[DeleteTopic]},
	KindPauseTopic:      {"pause-topic", decodeAs[PauseTopic]},
	KindFitTopic:        {"fit-topic", decodeAs[FitTopic]},
	KindRestoreTopic:    {"restore-topic", decodeAs[RestoreTopic]},
	KindPurgeTopics:     {"purge-topics", decodeAs[PurgeTopics]},
	KindCreateChannel:   {"create-channel", decodeAs[CreateChannel]},
	KindDeleteChannel:   {"delete-channel", decodeAs[DeleteChannel]},
	KindAlterChannel:    {"alter-channel", decodeAs[AlterChannel]},
	KindRecordAct:       {"record-act", decodeAs[RecordAct]},
	KindSavePositions:   {"save-positions", decodeAs[SavePositions]},
	KindDropSaved:       {"drop-saved", decodeAs[DropSaved]},
	KindElectLeaders:    {"elect-leaders", decodeAs[ElectLeaders]},
	KindAlterISR:        {"alter-isr", decodeAs[AlterISR]},
	KindStartReassign:   {"start-reassign", decodeAs[StartReassign]},
	KindFinishReassign:  {"finish-reassign", decodeAs[FinishReassign]},
	KindReportSuspects:  {"report-suspects", decodeAs[ReportSuspects]},
	KindYieldLeader:     {"yield-leader", decodeAs[YieldLeader]},
	KindChangeAccess:    {"change-access", decodeAs[ChangeAccess]},
}

// String returns the kind's name.
func (k Kind) String() string {
	if known, ok := kinds[k]; ok {
		return known.name
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

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
	body, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode %v: %w", c.Kind(), err)
	}
	if len(body)+commandHeader+commandTime+commandTrailer > MaxCommandBytes {
		return nil, fmt.Errorf("%w: %v of %d bytes", failure.CommandTooLarge, c.Kind(), len(body))
	}
	out := make([]byte, 0, len(body)+commandHeader+commandTime+commandTrailer)
	if at == 0 {
		out = append(out, untimedVersion, byte(c.Kind()))
	} else {
		out = append(out, timedVersion, byte(c.Kind()))
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
	version, kind := data[0], Kind(data[1])
	known, ok := kinds[kind]
	if version == 0 || version > commandVersion || !ok {
		return nil, fmt.Errorf("%w: %v, version %d", ErrUnknownCommand, kind, version)
	}
	begin := commandHeader
	if version == timedVersion {
		if begin += commandTime; begin > n {
			return nil, fmt.Errorf("%w: truncated command, %d bytes", ErrCorrupt, len(data))
		}
	}
	c, err := known.decode(data[begin:n])
	if err != nil {
		// The checksum is correct, so a program that knew more fields than this one wrote it.
		return nil, fmt.Errorf("%w: %v: %w", ErrUnknownCommand, kind, err)
	}
	return c, nil
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

func decodeAs[T Command](body []byte) (Command, error) {
	var c T
	if err := DecodeStrict(body, &c); err != nil {
		return nil, err
	}
	return c, nil
}

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
