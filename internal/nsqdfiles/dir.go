package nsqdfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/jsonbytes"
)

// MetadataFile is the file in which nsqd keeps its topics and channels.
const MetadataFile = "nsqd.dat"

// Channel is a channel of nsqd with what waits in it alone.
type Channel struct {
	Name   string
	Paused bool
	Queue  Queue
}

// Topic is a topic of nsqd. The messages in its own queue have reached no channel yet.
type Topic struct {
	Name     string
	Paused   bool
	Queue    Queue
	Channels []Channel
}

// Dir is what a data path holds.
type Dir struct {
	Topics []Topic
	Files  map[string]Stamp // nsqd's, by name
	// Notes report what was skipped, and why.
	Notes []string
}

// Messages returns how many messages wait.
func (d *Dir) Messages() int {
	n := 0
	for i := range d.Topics {
		n += d.Topics[i].Queue.Messages
		for _, c := range d.Topics[i].Channels {
			n += c.Queue.Messages
		}
	}
	return n
}

// Stamp reports whether a file was written to.
type Stamp struct {
	Size    int64 `json:"size"`
	Changed int64 `json:"changed_ns"` // ns since 1970
}

// Stamps returns the stamps of nsqd's files in a data path.
func Stamps(path string) (map[string]Stamp, error) {
	names, err := list(path)
	if err != nil {
		return nil, err
	}
	stamps := make(map[string]Stamp, len(names))
	for _, name := range names {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil {
			return nil, err
		}
		stamps[name] = Stamp{info.Size(), info.ModTime().UnixNano()}
	}
	return stamps, nil
}

// Present reports whether a data path holds anything of nsqd's.
func Present(path string) (bool, error) {
	names, err := list(path)
	return len(names) > 0, err
}

var (
	// queueFile is a file of a disk queue: a part of it, or where it is read and written.
	queueFile = regexp.MustCompile(`^(.+)\.diskqueue\.(\d{6,}|meta)\.dat$`)
	// asideFile is what nsqd has given up, or a temporary file that it left.
	asideFile = regexp.MustCompile(`\.diskqueue\.\d{6,}\.dat\.bad$|\.diskqueue\.meta\.dat\.\d+\.tmp$|^nsqd\.dat\.\d+\.tmp$|^nsqd\.\d+\.dat$`)
)

// list returns the names of nsqd's files.
func list(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list nsqd files: %w", err)
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); n == MetadataFile || strings.Contains(n, ".diskqueue.") || asideFile.MatchString(n) {
			names = append(names, n)
		}
	}
	return names, nil
}

// Read reads all that a data path holds and checks every message. No nsqd may run on
// it meanwhile.
func Read(path string) (*Dir, error) {
	stamps, err := Stamps(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{Files: stamps}
	queues := map[string]*parts{}
	for _, name := range slices.Sorted(maps.Keys(stamps)) {
		m := queueFile.FindStringSubmatch(name)
		switch {
		case name == MetadataFile:
		case asideFile.MatchString(name):
			d.Notes = append(d.Notes, name+" skipped: abandoned or never completed by nsqd")
		case m == nil:
			return nil, fmt.Errorf("%s: not an nsqd 1.3.0 file: move it away unless its messages are needed", filepath.Join(path, name))
		default:
			if queues[m[1]] == nil {
				queues[m[1]] = &parts{}
			}
			queues[m[1]].add(m[2], name)
		}
	}
	if d.Topics, err = readMetadata(filepath.Join(path, MetadataFile)); err != nil {
		return nil, err
	}
	for i := range d.Topics {
		t := &d.Topics[i]
		if err := d.readQueue(path, queues, t.Name, &t.Queue); err != nil {
			return nil, err
		}
		for k := range t.Channels {
			if err := d.readQueue(path, queues, t.Name+":"+t.Channels[k].Name, &t.Channels[k].Queue); err != nil {
				return nil, err
			}
		}
	}
	return d, d.strays(path, queues)
}

// readQueue reads one queue.
func (d *Dir) readQueue(path string, queues map[string]*parts, name string, q *Queue) error {
	p := queues[name]
	if p == nil {
		return nil
	}
	delete(queues, name)
	var err error
	*q, err = readQueue(path, name, p)
	d.Notes = append(d.Notes, q.notes...)
	return err
}

// strays refuses queues with messages that belong to no topic and no channel.
func (d *Dir) strays(path string, queues map[string]*parts) error {
	for name, p := range queues {
		q, err := readQueue(path, name, p)
		if err != nil {
			return err
		}
		if q.Messages > 0 {
			return fmt.Errorf("%s: disk queue %[3]q holds %[2]d messages, but %[4]s does not name its topic or channel: move its files away if they are not needed",
				path, q.Messages, name, MetadataFile)
		}
	}
	return nil
}

// readMetadata reads nsqd.dat. A field that is not known is refused: it may mean
// something.
func readMetadata(file string) ([]Topic, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m struct {
		Version string `json:"version"`
		Topics  []struct {
			Name     string `json:"name"`
			Paused   bool   `json:"paused"`
			Channels []struct {
				Name   string `json:"name"`
				Paused bool   `json:"paused"`
			} `json:"channels"`
		} `json:"topics"`
	}
	if err := jsonbytes.Check(content); err != nil {
		return nil, fmt.Errorf("%s: not nsqd 1.3.0 metadata: %w", file, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: not nsqd 1.3.0 metadata: %w", file, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: trailing data after the metadata", file)
	}
	topics := make([]Topic, 0, len(m.Topics))
	for _, mt := range m.Topics {
		t := Topic{Name: mt.Name, Paused: mt.Paused}
		for _, mc := range mt.Channels {
			t.Channels = append(t.Channels, Channel{Name: mc.Name, Paused: mc.Paused})
		}
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(topics); i++ {
		if topics[i].Name == topics[i-1].Name {
			return nil, fmt.Errorf("%s: duplicate topic %q", file, topics[i].Name)
		}
	}
	return topics, nil
}
