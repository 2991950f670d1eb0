package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/golden"
)

// files reads from memory.
func files(content map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		text, ok := content[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	file := "zone = \"file\"\nmax-rdy-count = 7\n"
	tests := []struct {
		name      string
		in        Input
		zone, rdy string
		from      string
	}{
		{"default", Input{}, "", "2500", ""},
		{"file", Input{Environ: []string{"BROKERD_CONFIG=f.toml"}}, "file", "7", "f.toml:1:1"},
		{"environment", Input{Environ: []string{"BROKERD_CONFIG=f.toml", "BROKERD_ZONE=env"}}, "env", "7", "environment BROKERD_ZONE"},
		{"flag", Input{Flags: []Assignment{{Key: "zone", Value: "flag"}, {Key: "config", Value: "f.toml"}}, Environ: []string{"BROKERD_ZONE=env"}}, "flag", "7", "flag --zone"},
		{"an empty flag counts", Input{Flags: []Assignment{{Key: "zone", Value: ""}}, Environ: []string{"BROKERD_ZONE=env"}}, "", "2500", "flag --zone"},
		{"the flag's file beats the variable's", Input{Flags: []Assignment{{Key: "config", Value: "f.toml"}}, Environ: []string{"BROKERD_CONFIG=none.toml"}}, "file", "7", "f.toml:1:1"},
		{"the last flag counts", Input{Flags: []Assignment{{Key: "zone", Value: "a"}, {Key: "zone", Value: "b"}}}, "b", "2500", "flag --zone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Hostname = "host"
			tt.in.ReadFile = files(map[string]string{"f.toml": file})
			got, err := Load(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			values := map[string]string{}
			for _, s := range got.Options.Settings() {
				values[s.Key] = s.Value()
			}
			if values["zone"] != tt.zone || values["max-rdy-count"] != tt.rdy || got.Sources["zone"] != tt.from {
				t.Errorf("zone %q rdy %q from %q, want %q %q %q", values["zone"], values["max-rdy-count"], got.Sources["zone"], tt.zone, tt.rdy, tt.from)
			}
			if got.Options.NodeID != "host" {
				t.Errorf("node id %q, want the host name", got.Options.NodeID)
			}
		})
	}
}

func TestListsAreRepeatedSeparatedOrArrays(t *testing.T) {
	want := []string{"a:1", "b:2"}
	for name, in := range map[string]Input{
		"flags": {Flags: []Assignment{{Key: "join", Value: "a:1"}, {Key: "join", Value: "b:2"}}},
		"comma": {Flags: []Assignment{{Key: "join", Value: "a:1, b:2"}}},
		"env":   {Environ: []string{"BROKERD_JOIN=a:1,b:2"}},
		"file":  {Flags: []Assignment{{Key: "config", Value: "f"}}},
	} {
		in.Hostname, in.ReadFile = "h", files(map[string]string{"f": `join = ["a:1", "b:2"]`})
		got, err := Load(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got.Options.Cluster.Join); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestMistakes compares the text that users see with testdata/*.golden.
func TestMistakes(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.toml")
	if err != nil || len(inputs) == 0 {
		t.Fatal("no inputs", err)
	}
	for _, name := range inputs {
		t.Run(filepath.Base(name), func(t *testing.T) {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			_, wrong := checkFile(filepath.Base(name), content)
			if wrong == nil {
				t.Fatal("no mistake found")
			}
			golden.Compare(t, strings.TrimSuffix(name, ".toml")+".golden", wrong.Error()+"\n")
		})
	}
}

func TestEveryMistakeIsReportedAtOnce(t *testing.T) {
	_, err := Load(Input{
		Flags: []Assignment{
			{Key: "tcp-address", Value: "4150"},
			{Key: "max-deflate-level", Value: "11"},
			{Key: "msg-timeout", Value: "20m"},
			{Key: "segment-size", Value: "1"},
			{Key: "log-level", Value: "loud"},
			{Key: "config", Value: "f.toml"},
		},
		Environ:  []string{"PATH=/bin", "BROKERD_MAX_RDY_COUNT=many", "BROKERD_FYSNC=always", "BROKERD_TCP_ADRESS=:1", "BROKERD_SERVICE_HOST=10.0.0.1", "BROKERD_PORT=tcp://10.0.0.1:4150", "BROKERD_PORT_4150_TCP=x"},
		Hostname: "a host",
		ReadFile: files(map[string]string{"f.toml": "tls_cert = \"c.pem\"\nsnycc = 1\n"}),
	})
	var problems Problems
	if !errors.As(err, &problems) || problems.Usage() {
		t.Fatalf("%v is no list of problems of several kinds", err)
	}
	golden.Compare(t, "testdata/mixed.golden", err.Error()+"\n")
}

// A value accepted here must not be refused when a topic is created.
func TestDefaultsOfTopicsAreWithinTheBoundsOfTopics(t *testing.T) {
	for _, a := range []Assignment{
		{Key: "sync", Value: "1073741825"},
		{Key: "sync-interval", Value: "61s"},
		{Key: "segment-size", Value: "2049MiB"},
		{Key: "default-partitions", Value: "1025"},
	} {
		if _, err := Load(Input{Hostname: "h", Flags: []Assignment{a}}); err == nil {
			t.Errorf("%s = %s was accepted", a.Key, a.Value)
		}
	}
}

func TestOnlyTheCommandLineIsUsage(t *testing.T) {
	_, err := Load(Input{Hostname: "h", Flags: []Assignment{{Key: "max-rdy-count", Value: "x"}}})
	var problems Problems
	if !errors.As(err, &problems) || !problems.Usage() {
		t.Errorf("%v, want a usage problem", err)
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	_, err := Load(Input{Hostname: "h", Flags: []Assignment{{Key: "config", Value: "nope"}}, ReadFile: files(nil)})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want not found", err)
	}
}

func TestLargeFileIsAnError(t *testing.T) {
	for size, want := range map[int]bool{maxFileBytes: true, maxFileBytes + 1: false} {
		_, err := Load(Input{Environ: []string{"BROKERD_CONFIG=x.toml"}, Hostname: "n1", ReadFile: func(string) ([]byte, error) {
			return bytes.Repeat([]byte("\n"), size), nil
		}})
		if (err == nil) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestByteOrderMarkIsIgnored(t *testing.T) {
	l, err := Load(Input{Environ: []string{"BROKERD_CONFIG=x.toml"}, ReadFile: func(string) ([]byte, error) {
		return []byte(byteOrderMark + "node-id = 'n7'\r\n"), nil
	}})
	if err != nil || l.Options.NodeID != "n7" {
		t.Errorf("node %q, %v", l.Options.NodeID, err)
	}
}

func TestDefaultsAreNsqds(t *testing.T) {
	o := Default()
	want := Limits{
		MaxMsgSize: 1048576, MaxBodySize: 5242880, MsgTimeout: time.Minute, MaxMsgTimeout: 15 * time.Minute,
		MaxReqTimeout: time.Hour, RequeueInMemory: time.Minute, MaxRdyCount: 2500, MaxHeartbeatInterval: time.Minute, MaxOutputBufferSize: 65536,
		MaxOutputBufferTimeout: 30 * time.Second, MinOutputBufferTimeout: 25 * time.Millisecond,
		OutputBufferTimeout: 250 * time.Millisecond, MaxConnections: 10000, CreationBurst: 10000, CreationRate: 50, MemQueueSize: 10000, Snappy: true, Deflate: true, MaxDeflateLevel: 6,
	}
	if diff := cmp.Diff(want, o.Limits); diff != "" {
		t.Error(diff)
	}
	if !o.Topics.AutoCreate || o.Topics.Sync.Every != 1 || o.Cluster.BootstrapExpect != 1 {
		t.Errorf("topics %+v cluster %+v", o.Topics, o.Cluster)
	}
}

func TestSettingsAreWellFormed(t *testing.T) {
	o := Default()
	seen := map[string]bool{}
	for _, s := range o.Settings() {
		switch {
		case s.Key != strings.ToLower(s.Key) || strings.ContainsAny(s.Key, "_. "):
			t.Errorf("%q is no flag name", s.Key)
		case seen[s.Key]:
			t.Errorf("%s twice", s.Key)
		case !strings.HasSuffix(s.Doc, "."):
			t.Errorf("%s: the text is no sentence", s.Key)
		}
		seen[s.Key] = true
	}
}

func TestPrintReadsBackAsItself(t *testing.T) {
	loaded, err := Load(Input{Hostname: "h", Flags: []Assignment{
		{Key: "join", Value: "a:1,b:2"}, {Key: "sync", Value: "100"}, {Key: "retention-bytes", Value: "50GiB"}, {Key: "zone", Value: "a \"b\""},
	}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load(Input{Hostname: "other", Flags: []Assignment{{Key: "config", Value: "f"}}, ReadFile: files(map[string]string{"f": loaded.Print(true)})})
	if err != nil {
		t.Fatal(err)
	}
	again.Options.Config = ""
	if diff := cmp.Diff(loaded.Options, again.Options); diff != "" {
		t.Error(diff)
	}
	golden.Compare(t, "testdata/print.golden", loaded.Print(true))
}

func TestChangedSeparatesReloadFromRestart(t *testing.T) {
	a, b := Default(), Default()
	b.Process.LogLevel, b.Process.DrainTimeout, b.DataDir = "debug", 5, "elsewhere"
	reload, restart := Changed(&a, &b)
	if diff := cmp.Diff([][]string{{"drain-timeout", "log-level"}, {"data-dir"}}, [][]string{reload, restart}); diff != "" {
		t.Error(diff)
	}
}

// checkFile loads a file with the given content, and nothing else.
func checkFile(name string, content []byte) (Loaded, error) {
	return Load(Input{
		Flags: []Assignment{{Key: configKey, Value: name}}, Hostname: "host",
		ReadFile: func(string) ([]byte, error) { return content, nil },
	})
}

func TestExampleFileMatchesSettings(t *testing.T) {
	golden.Compare(t, "../../deploy/brokerd.toml", Example())
	live := strings.ReplaceAll(Example(), "\n#", "\n")
	for line := range strings.SplitSeq(live, "\n") {
		if key, _, ok := strings.Cut(line, " = "); ok && !strings.HasPrefix(line, " ") && key != "node_id" {
			if _, err := checkFile("example", []byte(line)); err != nil {
				t.Errorf("the default of %s is refused: %v", key, err)
			}
		}
	}
}

func TestManualMatchesSettings(t *testing.T) {
	const name, begin, end = "../../docs/operations.md", "<!-- settings: begin -->\n", "<!-- settings: end -->"
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(content), begin)
	if !ok {
		t.Fatal("no place for the settings")
	}
	_, tail, _ := strings.Cut(rest, end)
	golden.Compare(t, name, head+begin+reference()+end+tail)
}

func FuzzFile(f *testing.F) {
	f.Add("zone = \"a\"\n[x]\ny = [1, 2]\n")
	f.Add("a.b.c = 1979-05-27T07:32:00Z")
	f.Add("max_rdy_count = {a = 1}\n\"\" = 0x10")
	f.Fuzz(func(t *testing.T, content string) {
		// Any content is answered, and every problem is named.
		var problems Problems
		if _, err := checkFile("f", []byte(content)); err != nil && (!errors.As(err, &problems) || problems.Error() == "") {
			t.Errorf("%v", err)
		}
	})
}

func TestEnvironmentSettingsAreNamed(t *testing.T) {
	in := Input{Hostname: "host", Environ: []string{"BROKERD_SYNC=always", "BROKERD_DATA_DIR=/d", "BROKERD_ZONE=z", "HOME=/h"}}
	for flag, want := range map[string][]string{
		"":     {"BROKERD_DATA_DIR", "BROKERD_SYNC", "BROKERD_ZONE"},
		"zone": {"BROKERD_DATA_DIR", "BROKERD_SYNC"}, // another source takes precedence
	} {
		if in.Flags = nil; flag != "" {
			in.Flags = []Assignment{{Key: flag, Value: "a"}}
		}
		loaded, err := Load(in)
		if got := loaded.FromEnvironment(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

// reference returns the settings as a table for the manual, in Markdown.
func reference() string {
	var b strings.Builder
	group := ""
	o := Default()
	for _, s := range o.Settings() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n**%s**\n\n| setting | default | meaning |\n| --- | --- | --- |\n", group)
		}
		shown := "`" + s.Default + "`"
		if s.Default == "" {
			shown = "empty"
		}
		doc := s.Doc
		if s.Reload {
			doc += " *Reloadable.*"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Key, shown, strings.ReplaceAll(doc, "|", "\\|"))
	}
	return strings.TrimPrefix(b.String(), "\n")
}
