package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExamplesAreTheMarkedBlocks(t *testing.T) {
	doc := strings.Join([]string{
		"```sh", "not run", "```",
		runMark, "```sh", "echo hi", "echo you", "```", "prints", "```text", "hi", "you", "```",
		"```text", "unrelated", "```",
		runMark, "```go", "package main", "```",
		aloneMark, "```sh", "serve", "```",
	}, "\n")
	got, err := examples(doc)
	if err != nil {
		t.Fatal(err)
	}
	want := []example{
		{lang: "sh", code: "echo hi\necho you\n", want: "hi\nyou\n", hasWant: true},
		{lang: "go", code: "package main\n"},
		{lang: "sh", code: "serve\n", alone: true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(example{})); diff != "" {
		t.Error(diff)
	}
	if _, err := examples(runMark + "\n```sh\necho"); err == nil {
		t.Error("a block without an end is accepted")
	}
}

func TestReadmeHasExamplesOfEveryKind(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := examples(string(text))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, x := range all {
		kinds[x.lang]++
		if x.alone {
			kinds["alone"]++
		}
	}
	if kinds["sh"] < 3 || kinds["alone"] != 1 || kinds["go"] != 2 || kinds["js"] != 1 {
		t.Errorf("examples by language: %v", kinds)
	}
}

func TestNsqdFlagsAreConverted(t *testing.T) {
	var f clusterFlags
	err := f.parse([]string{"-http-address", "127.0.0.1:1", "--tcp-address=127.0.0.1:2", "-data-path", "d", "-tls-cert", "c", "-broadcast-address", "h", "-auth-http-address", "a"})
	if err != nil || f.http != "127.0.0.1:1" || f.tcp != "127.0.0.1:2" || f.data != "d" {
		t.Errorf("%+v, %v", f, err)
	}
	if diff := cmp.Diff([]string{"--advertise-host", "h", "--tls-cert", "c", "--auth-http-address", "a"}, f.broker()); diff != "" {
		t.Error(diff)
	}
	if f.parse([]string{"-unknown"}) == nil {
		t.Error("an unknown flag is accepted")
	}
}

func TestConnectionIsForwardedBothWays(t *testing.T) {
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer back.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go forward(l, back.Listener.Addr().String())
	resp, err := http.Post("http://"+l.Addr().String()+"/", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestGoTestsAreCountedByName(t *testing.T) {
	events := `{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestB","Output":"wrong\n"}
{"Action":"pass","Test":"TestA/sub"}
{"Action":"pass","Test":"TestA"}
{"Action":"fail","Test":"TestB"}
{"Action":"skip","Test":"TestC"}
not an event
{"Action":"fail"}
`
	got := countGoTests([]byte(events))
	want := goCount{
		passed: 1, bad: []string{"TestB", "TestC"},
		output: map[string][]string{"TestB": {"wrong\n"}, "": {"not an event\n"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(goCount{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"wrong\n"}, got.failures()); diff != "" {
		t.Error(diff)
	}
}

func TestLogAfterTestEndIsNoFailure(t *testing.T) {
	late := goNSQLogs + "A has completed: ERR 12\n"
	for name, c := range map[string]struct {
		count goCount
		want  bool
	}{
		"all passed":            {goCount{}, false},
		"behind the last test":  {goCount{output: map[string][]string{"": {"PASS\n", late}}}, true},
		"while another ran":     {goCount{bad: []string{"TestB"}, output: map[string][]string{"TestB": {"=== RUN\n", late}}}, true},
		"beside a failure":      {goCount{bad: []string{"TestB"}, output: map[string][]string{"TestB": {"wrong\n"}, "": {late}}}, false},
		"another panic":         {goCount{output: map[string][]string{"": {"panic: no\n"}}}, false},
		"a test that prints it": {goCount{bad: []string{"TestB"}, output: map[string][]string{"TestB": {"got " + late}}}, false},
	} {
		if got := c.count.logsLate(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMochaReportIsFoundAfterOtherOutput(t *testing.T) {
	out := "a line of the suite\n{\n  \"stats\": {\"passes\": 3, \"failures\": 1, \"pending\": 0},\n" +
		"  \"failures\": [{\"fullTitle\": \"x y\", \"err\": {\"message\": \"m\", \"stack\": \"s\"}}]\n}trailing"
	m, err := readMocha([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if m.Stats.Passes != 3 || m.Stats.Failures != 1 || m.failures() != "x y: m\ns\n" {
		t.Errorf("read %+v", m)
	}
	if _, err := readMocha([]byte("Error: no such thing")); err == nil {
		t.Error("output without a report is accepted")
	}
}

func TestOnlyTestsOfTheSuitesOwnTimingMayFail(t *testing.T) {
	for text, want := range map[string]bool{
		`{"failures":[]}`: false,
		`{"failures":[{"fullTitle":"ReaderRdy low RDY conditions should"}]}`:                          true,
		`{"failures":[{"fullTitle":"ReaderRdy low RDY"},{"fullTitle":"integration should receive"}]}`: false,
		`{"failures":[{"fullTitle":"Message timeout should allow touch"}]}`:                           true,
		`{"failures":[{"fullTitle":"Reader with nsqd"}]}`:                                             false,
		`{"failures":[{"fullTitle":"integration end to end should send and receive a string","err":` +
			`{"message":"done() called multiple times in test <x>; in addition, done() received error: Error: nsqd connection closed"}}]}`: true,
		`{"failures":[{"fullTitle":"integration end to end should send and receive a string","err":{"message":"nsqd connection closed"}}]}`: false,
		`{"failures":[{"fullTitle":"integration end to end should send and receive a string","err":{"message":"Timeout of 2000ms"}}]}`:      false,
	} {
		var m mocha
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		if got := m.mayFail(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestTAPTestsAreCountedByTheirLines(t *testing.T) {
	var c tapCount
	c.add("TAP version 13\n# Subtest: a\n    ok 1 - inner\n    1..1\nok 1 - a # time=1ms\n\n    not ok 1 - inner\n" +
		"not ok 2 - b # time=2ms\n  ---\n  at: line\n  ...\nok 3 - c # SKIP filter out\nok 4 - d\n1..4\n# failed\n")
	want := tapCount{passed: 2, bad: []string{"not ok 2 - b # time=2ms\n  ---\n  at: line\n  ..."}}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(tapCount{})); diff != "" {
		t.Error(diff)
	}
	if !c.onlyFailed("b") || c.onlyFailed("a") {
		t.Error("b failed, and nothing else")
	}
	c.add("not ok 1 - e\n")
	if c.onlyFailed("b") {
		t.Error("e failed as well")
	}
}

func TestSecretOfGoNSQIsReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.go")
	before := "\tAuthSecret string `opt:\"auth_secret\"`\n\tOther int `opt:\"other\" default:\"1\"`\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"one", "two"} { // a run that is repeated has another broker
		if err := useGoNSQSecret(dir, token); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if want := strings.Replace(before, "secret\"", "secret\" default:\""+token+"\"", 1); err != nil || string(text) != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
	}
	if err := os.WriteFile(file, []byte("package nsq"), 0o600); err != nil {
		t.Fatal(err)
	}
	if useGoNSQSecret(dir, "three") == nil {
		t.Error("a client without the option is accepted")
	}
}
