package nsqdfiles

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// record encodes one message like a disk queue.
func record(body string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(headBytes+len(body)))
	b = binary.BigEndian.AppendUint64(b, 1700000000123456789)
	b = binary.BigEndian.AppendUint16(b, 3)
	b = append(b, "0123456789abcdef"...)
	return string(append(b, body...))
}

func records(bodies ...string) string {
	var all strings.Builder
	for _, body := range bodies {
		all.WriteString(record(body))
	}
	return all.String()
}

// write creates a data path.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const oneTopic = `{"topics":[{"channels":[{"name":"c","paused":true}],"name":"t","paused":false}],"version":"1.3.0"}`

func bodies(t *testing.T, q *Queue) string {
	t.Helper()
	var all []string
	if err := q.Each(func(m Message) error {
		if m.Timestamp != 1700000000123456789 || m.Attempts != 3 || string(m.ID[:]) != "0123456789abcdef" {
			t.Errorf("head of a message: %+v", m)
		}
		all = append(all, string(m.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) != q.Messages {
		t.Errorf("%d messages counted, %d handed over", q.Messages, len(all))
	}
	return strings.Join(all, " ")
}

func TestDataPathIsRead(t *testing.T) {
	size := len(record("a"))
	for _, tt := range []struct {
		name           string
		files          map[string]string
		topic, channel string
		note           string
	}{
		{"nothing waits", map[string]string{"t.diskqueue.meta.dat": "0\n3,120\n3,120\n"}, "", "", ""},
		{"one file", map[string]string{
			"t.diskqueue.meta.dat": fmt.Sprintf("2\n0,%d\n0,%d\n", size, 3*size), "t.diskqueue.000000.dat": records("a", "b", "c"),
		}, "b c", "", ""},
		{"several files, the last one not begun", map[string]string{
			"t:c.diskqueue.meta.dat":   fmt.Sprintf("3\n7,%d\n9,0\n", size),
			"t:c.diskqueue.000007.dat": records("a", "b"), "t:c.diskqueue.000008.dat": records("c", "d"),
			"t:c.diskqueue.000006.dat": "old",
		}, "", "b c d", "000006.dat skipped"},
		{"written after the meta file, and killed", map[string]string{
			"t:c.diskqueue.meta.dat":   fmt.Sprintf("1\n0,0\n0,%d\n", size),
			"t:c.diskqueue.000000.dat": records("a", "b") + record("c")[:20], "t:c.diskqueue.000001.dat": records("d"),
		}, "", "a b d", "an incomplete message"},
		{"no meta file", map[string]string{"t.diskqueue.000000.dat": records("a")}, "a", "", "has no meta file"},
		{"set aside by nsqd", map[string]string{"t.diskqueue.000000.dat.bad": "x", "t.diskqueue.meta.dat.77.tmp": "x"}, "", "", "skipped"},
		{"a stray that is empty", map[string]string{"gone.diskqueue.meta.dat": "0\n0,0\n0,0\n"}, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.files[MetadataFile] = oneTopic
			dir := write(t, tt.files)
			d, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Topics) != 1 || d.Topics[0].Name != "t" || len(d.Topics[0].Channels) != 1 || !d.Topics[0].Channels[0].Paused {
				t.Fatalf("%+v", d.Topics)
			}
			if got := bodies(t, &d.Topics[0].Queue); got != tt.topic {
				t.Errorf("topic: %q, want %q", got, tt.topic)
			}
			if got := bodies(t, &d.Topics[0].Channels[0].Queue); got != tt.channel {
				t.Errorf("channel: %q, want %q", got, tt.channel)
			}
			if notes := strings.Join(d.Notes, "\n"); (notes == "") != (tt.note == "") || !strings.Contains(notes, tt.note) {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
			if len(d.Files) != len(tt.files) {
				t.Errorf("files %v", d.Files)
			}
		})
	}
}

func TestDataPathIsRefused(t *testing.T) {
	size := len(record("a"))
	whole := fmt.Sprintf("2\n0,0\n0,%d\n", 2*size)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"metadata cut short", map[string]string{MetadataFile: oneTopic[:20]}, "not nsqd 1.3.0 metadata"},
		{"metadata of another kind", map[string]string{MetadataFile: `{"topics":[],"version":"9","shards":3}`}, "not nsqd 1.3.0 metadata"},
		{"something behind the metadata", map[string]string{MetadataFile: oneTopic + "{}"}, "trailing data after the metadata"},
		{"a topic twice", map[string]string{MetadataFile: `{"topics":[{"name":"t"},{"name":"t"}]}`}, "duplicate topic"},
		{"a bad meta file", map[string]string{"t.diskqueue.meta.dat": "2\n0,0\n"}, "not a disk queue meta file"},
		{"read behind the write", map[string]string{"t.diskqueue.meta.dat": "0\n1,0\n0,0\n"}, "past the write position"},
		{"no file", map[string]string{"t.diskqueue.meta.dat": whole}, "lacks file 000000"},
		{"a file between is gone", map[string]string{
			"t.diskqueue.meta.dat": fmt.Sprintf("3\n0,0\n2,%d\n", size), "t.diskqueue.000000.dat": records("a"), "t.diskqueue.000002.dat": records("c"),
		}, "lacks file 000001"},
		{"a short file", map[string]string{"t.diskqueue.meta.dat": whole, "t.diskqueue.000000.dat": records("a")}, "messages are missing"},
		{"a message cut short that counts", map[string]string{
			"t.diskqueue.meta.dat": fmt.Sprintf("3\n0,0\n1,%d\n", size), "t.diskqueue.000000.dat": records("a") + record("b")[:9], "t.diskqueue.000001.dat": records("c"),
		}, "its meta file says 3"},
		{"a size that is none", map[string]string{"t.diskqueue.meta.dat": whole, "t.diskqueue.000000.dat": records("a") + strings.Repeat("\x00", size)}, "the file is corrupt"},
		{"messages of no channel", map[string]string{"t:d.diskqueue.meta.dat": whole, "t:d.diskqueue.000000.dat": records("a", "b")}, `"t:d"`},
		{"a file of another kind", map[string]string{"t.diskqueue.idx": ""}, "not an nsqd 1.3.0 file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.files[MetadataFile] == "" {
				tt.files[MetadataFile] = oneTopic
			}
			if _, err := Read(write(t, tt.files)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
