package replication

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/pkg/commitlog"
)

// TestMessagesAreGolden compares encoded messages with their specified
// bytes.
func TestMessagesAreGolden(t *testing.T) {
	h := header{Partition{0x0102, 3}, 4}
	at := point{End: 5, Epoch: 6, Checksum: 7}
	var text strings.Builder
	for _, m := range []struct {
		name string
		raw  []byte
	}{
		{"put", append(put{header: h, prev: at, committed: 8, sync: true}.appendHead(nil), "batches"...)},
		{"put without batches", put{header: h, prev: at, committed: 8}.appendHead(nil)},
		{"reconcile", reconcile{h}.encode()},
		{"truncate", truncate{header: h, to: at}.encode()},
		{"reset", truncate{header: h, to: point{End: 5}, reset: true, position: 9, before: 10}.encode()},
		{"positions", append(positions{header: h, number: 11, total: 12, at: 4}.head(), "snapshot"...)},
		{"advance", append(advance{header: h, after: 12}.head(), appendChanges(advances("one", "", "two"))[0]...)},
		{"answer", answer{outcome: outcomeMismatch, epoch: 1, start: 2, end: 3, committed: 4}.encode()},
		{"answer to reconcile", answer{epoch: 1, start: 2, end: 9, committed: 4, epochs: []commitlog.EpochStart{{Epoch: 1, Start: 2}, {Epoch: 7, Start: 8}}}.encode()},
		{"not ready", NotReady()},
	} {
		fmt.Fprintf(&text, "%s\n%s\n", m.name, hex.Dump(m.raw))
	}
	golden.Compare(t, filepath.Join("testdata", "messages.golden"), text.String())
}

// TestTruncatedMessagesAreRefused: a truncated message is never accepted.
func TestTruncatedMessagesAreRefused(t *testing.T) {
	h := header{Partition{1, 2}, 3}
	change := appendChanges(advances("change"))[0]
	for name, m := range map[string]struct {
		raw    []byte
		decode func([]byte) error
	}{
		"put":       {put{header: h}.appendHead(nil), func(p []byte) error { _, err := decodePut(p); return err }},
		"reconcile": {reconcile{h}.encode(), func(p []byte) error { _, err := decodeReconcile(p); return err }},
		"truncate":  {truncate{header: h}.encode(), func(p []byte) error { _, err := decodeTruncate(p); return err }},
		"positions": {positions{header: h}.head(), func(p []byte) error { _, err := decodePositions(p); return err }},
		"answer":    {answer{}.encode(), func(p []byte) error { _, err := decodeAnswer(p); return err }},
		"partition": {h.append(nil), func(p []byte) error { _, err := PartitionOf(p); return err }},
	} {
		if err := m.decode(m.raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range m.raw {
			if m.decode(m.raw[:n]) == nil {
				t.Errorf("%s: %d of %d bytes were taken", name, n, len(m.raw))
			}
		}
	}
	whole := bytes.Join([][]byte{advance{header: h}.head(), change}, nil)
	for n := len(whole) - len(change) + 1; n < len(whole); n++ {
		if _, err := decodeAdvance(whole[:n]); err == nil {
			t.Errorf("advance: %d of %d bytes were taken", n, len(whole))
		}
	}
}

func FuzzAnswerDecode(f *testing.F) {
	f.Add(answer{outcome: outcomeOK, epoch: 3, end: 9, epochs: []commitlog.EpochStart{{Epoch: 1}, {Epoch: 3, Start: 4}}}.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if a, err := decodeAnswer(raw); err == nil {
			if again := a.encode(); !bytes.Equal(again, raw[:len(again)]) {
				t.Errorf("%x encodes as %x", raw, again)
			}
		}
	})
}

func FuzzFollowerRequest(f *testing.F) {
	f.Add(KindPut, put{header: header{Partition{1, 0}, 1}}.appendHead(nil))
	f.Add(KindTruncate, truncate{header: header{Partition{1, 0}, 1}}.encode())
	f.Add(KindPositions, append(positions{header: header{Partition{1, 0}, 1}, number: 1, total: 8}.head(), "snapshot"...))
	f.Add(kindAdvance, append(advance{header: header{Partition{1, 0}, 1}}.head(), appendChanges(advances("a", "", "bc"))[0]...))
	f.Add(kindReconcile, reconcile{header{Partition{1, 0}, 1}}.encode())
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte) {
		r := newReplica(t, "fuzz")
		if err := r.follower.Adopt(Following{Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		got := make(chan []byte, 1)
		r.follower.Handle(nil, kind, raw, func(p []byte) { got <- p })
		if _, err := decodeAnswer(<-got); err != nil {
			t.Error(err)
		}
	})
}

func FuzzAdvanceDecode(f *testing.F) {
	head := advance{header: header{Partition{1, 2}, 3}, after: 4}.head()
	f.Add(append(head, appendChanges(advances("one", "", "two"))[0]...))
	f.Add(head)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := decodeAdvance(raw)
		if err != nil {
			return
		}
		if again := append(m.head(), appendChanges(advances(stringsOf(m.changes)...))[0]...); !bytes.Equal(again, raw) {
			t.Errorf("%x encodes as %x", raw, again)
		}
	})
}

// advances returns changes with these bytes.
func advances(all ...string) (out []change) {
	for _, c := range all {
		out = append(out, change{kindAdvance, []byte(c)})
	}
	return out
}

func stringsOf(all [][]byte) (out []string) {
	for _, b := range all {
		out = append(out, string(b))
	}
	return out
}
