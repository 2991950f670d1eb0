package meta

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

func sealed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(b), crc32.Checksum(b, castagnoli))
}

func TestCommandBytes(t *testing.T) {
	got, err := EncodeCommandAt(PauseTopic{"t", true}, 0)
	if err != nil {
		t.Fatal(err)
	}
	const want = "0118" + "7b226e616d65223a2274222c22706175736564223a747275657d" + "c2d06a04"
	if hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
	golden.Compare(t, "testdata/command-v1.golden", got)
	for _, test := range []struct {
		name string
		data []byte
		want error
	}{
		{"empty", nil, ErrCorrupt},
		{"too short", []byte{1, 24, 0, 0, 0}, ErrCorrupt},
		{"too long", make([]byte, MaxCommandBytes+1), ErrCorrupt},
		{"flipped", append([]byte{1, 25}, got[2:]...), ErrCorrupt},
		{"newer version", sealed([]byte("\x03\x18{}")), ErrUnknownCommand},
		{"no room for the time", sealed([]byte("\x02\x18{}")), ErrCorrupt},
		{"version 0", sealed([]byte("\x00\x18{}")), ErrUnknownCommand},
		{"unknown kind", sealed([]byte("\x01\xff{}")), ErrUnknownCommand},
		{"unknown field", sealed([]byte("\x01\x18{\"name\":\"t\",\"why\":1}")), ErrUnknownCommand},
		{"two values", sealed([]byte("\x01\x18{}{}")), ErrUnknownCommand},
		{"no value", sealed([]byte("\x01\x18")), ErrUnknownCommand},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := DecodeCommand(test.data)
			if !errors.Is(err, test.want) || c != nil {
				t.Errorf("%v, %v", c, err)
			}
			if errors.Is(test.want, ErrCorrupt) != (fate.Of(err) == fate.Corrupt) {
				t.Errorf("fate %v", fate.Of(err))
			}
		})
	}
}

func TestCommandHasProposalTime(t *testing.T) {
	got, err := EncodeCommandAt(PauseTopic{"t", true}, 0x0102030405060708)
	if err != nil {
		t.Fatal(err)
	}
	const want = "0218" + "0807060504030201" + "7b226e616d65223a2274222c22706175736564223a747275657d"
	if text := hex.EncodeToString(got); text[:len(text)-8] != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if c, err := DecodeCommand(got); c != (PauseTopic{"t", true}) || err != nil || CommandTime(got) != 0x0102030405060708 {
		t.Errorf("%v, %v, at %x", c, err, CommandTime(got))
	}
	untimed, err := EncodeCommandAt(PauseTopic{"t", true}, 0)
	if err != nil || CommandTime(untimed) != 0 || CommandTime(nil) != 0 {
		t.Errorf("%v, at %x", err, CommandTime(untimed))
	}
}

// sample returns a state with one object of each kind.
func sample(t testing.TB) *State {
	t.Helper()
	var s State
	for i, c := range []Command{
		InitCluster{ID: "blue"},
		NodeStarted{Node: Node{ID: "n1", TCPAddress: "h:4150", Zone: "<z>", BootID: "b"}},
		CreateTopic{"t", TopicConfig{}.WithDefaults(1, false), [][]NodeID{{"n1"}}},
		CreateChannel{Topic: "t", Channel: "c", CreatedAt: 7},
		SetSettings{map[string]string{SettingAutoCreateTopics: "false"}},
		RecordAct{Act{At: 8, Node: "n1", Actor: "h:1", Verb: "DELETE /v1/topics/t", Status: 204}},
		SavePositions{Saved{At: 9, Verb: "seek", Topic: "t", Incarnation: 3, Channel: "c", Partitions: []SavedPartition{{Floor: 4, Finished: [][2]seq.Offset{{6, 8}}}}}},
	} {
		if r := s.Apply(uint64(i+1), c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return &s
}

func TestSnapshotBytes(t *testing.T) {
	got := encode(t, sample(t))
	want := sealed([]byte("brkdmeta\x01\x00\x00\x00" +
		`{"index":7,"cluster":{"id":"blue"},"settings":{"auto_create_topics":"false"},"nodes":1,"topics":1,"saved":1,"acts":1}` + "\n" +
		`{"id":"n1","tcp_address":"h:4150","zone":"<z>","boot_id":"b","state":"up","incarnation":1}` + "\n" +
		`{"name":"t","incarnation":3,"version":4,"config":{"partitions":1,"replicas":1,"auto_replicas":true,"min_isr":1,"auto_min_isr":true,"sync":"always","ordered":false,"ext":false,` +
		`"retention_bytes":0,"max_message":0,"retention":"0s"},"partitions":[{"replicas":["n1"],"leader":"n1","epoch":1,"isr":["n1"],"version":1}],` +
		`"channels":[{"name":"c","created_at":7,"version":4,"first":true}]}` + "\n" +
		`{"index":7,"at":9,"verb":"seek","topic":"t","incarnation":3,"channel":"c","partitions":[{"partition":0,"floor":4,"finished":[[6,8]]}]}` + "\n" +
		`{"index":6,"at":8,"node":"n1","actor":"h:1","verb":"DELETE /v1/topics/t","status":204}` + "\n"))
	if !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	golden.Compare(t, "testdata/snapshot-v1.golden", got)
}

func TestDamagedSnapshotIsAnError(t *testing.T) {
	whole := encode(t, sample(t))
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 0x10
		if s, err := DecodeSnapshot(bytes.NewReader(bad)); s != nil || fate.Of(err) != fate.Corrupt {
			t.Fatalf("byte %d: %v, %v", i, s, err)
		}
		if s, err := DecodeSnapshot(bytes.NewReader(whole[:i])); s != nil || fate.Of(err) != fate.Corrupt {
			t.Fatalf("%d bytes: %v, %v", i, s, err)
		}
	}
	body := whole[:len(whole)-4]
	newer := bytes.Clone(body)
	newer[len(snapshotMagic)] = 2
	if _, err := DecodeSnapshot(bytes.NewReader(sealed(newer))); !errors.Is(err, ErrUnknownSnapshot) {
		t.Errorf("newer: %v", err)
	}
	for name, change := range map[string][]byte{
		"a line too many": append(bytes.Clone(body), "{}\n"...),
		"a bad leader":    bytes.Replace(body, []byte(`"leader":"n1"`), []byte(`"leader":"n2"`), 1),
		"no partition":    bytes.Replace(body, []byte(`"partitions":1`), []byte(`"partitions":2`), 1),
		"a topic fewer":   bytes.Replace(body, []byte(`"topics":1`), []byte(`"topics":2`), 1),
		"an odd move":     bytes.Replace(body, []byte(`"version":1}],`), []byte(`"version":1,"adding":["n2"]}],`), 1),
		"an odd range":    bytes.Replace(body, []byte(`[[6,8]]`), []byte(`[[4,8]]`), 1),
		"a later save":    bytes.Replace(body, []byte(`{"index":7,"at"`), []byte(`{"index":8,"at"`), 1),
		"an odd intent":   bytes.Replace(body, []byte(`"state":"up"`), []byte(`"state":"up","intent":"nap"`), 1),
		"an odd setting":  bytes.Replace(body, []byte(`auto_create_topics`), []byte(`auto_delete_topics`), 1),
	} {
		if s, err := DecodeSnapshot(bytes.NewReader(sealed(change))); s != nil || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

func FuzzCommandDecode(f *testing.F) {
	for _, c := range []Command{PauseTopic{"t", true}, CreateTopic{"t", TopicConfig{}.WithDefaults(3, false), nil}, ElectLeaders{}} {
		data, err := EncodeCommandAt(c, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:len(data)-commandTrailer])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := DecodeCommand(data); err == nil && len(data) < commandHeader+commandTrailer {
			t.Error("too short, and no error")
		}
		c, err := DecodeCommand(sealed(data))
		if err != nil {
			return
		}
		sample(t).Apply(99, c)
		again, err := EncodeCommandAt(c, 0)
		if err != nil {
			return // grown beyond the limit by escapes
		}
		if _, err := DecodeCommand(again); err != nil {
			t.Errorf("%q does not come back: %v", again, err)
		}
	})
}

func FuzzSnapshotDecode(f *testing.F) {
	whole := encode(f, sample(f))
	f.Add(whole[:len(whole)-4])
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := DecodeSnapshot(bytes.NewReader(data)); (s == nil) == (err == nil) {
			t.Error("neither or both of state and error")
		}
		s, err := DecodeSnapshot(bytes.NewReader(sealed(data)))
		if err != nil {
			return
		}
		again, err := DecodeSnapshot(bytes.NewReader(encode(t, s)))
		if err != nil || !bytes.Equal(encode(t, again), encode(t, s)) {
			t.Errorf("does not come back: %v", err)
		}
	})
}

func TestCommandKindsHaveDistinctNumbers(t *testing.T) {
	seen := map[byte]string{}
	for _, k := range kinds {
		if other, ok := seen[k.number]; ok {
			t.Errorf("%s and %s are both stored as %d", other, k.name, k.number)
		}
		seen[k.number] = k.name
	}
}
