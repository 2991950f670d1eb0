package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOneProcessorHasTwoSlots(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "1")
	if makePlaces(); runtime.GOMAXPROCS(0) != 1 {
		t.Error("what the operator has set is changed")
	}
	t.Setenv("GOMAXPROCS", "")
	if makePlaces(); runtime.GOMAXPROCS(0) != 2 {
		t.Errorf("there are %d places", runtime.GOMAXPROCS(0))
	}
}

// TestLinkerSetsOnlyVersion ensures that `go build` builds the same program as `make build` and
// `make dist`.
func TestLinkerSetsOnlyVersion(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "\nBUILD    := -X github.com/brokerd/brokerd/internal/build\n") {
		t.Error("BUILD is not the package of the version")
	}
	set := regexp.MustCompile(`-X\s+\S+|\$\(BUILD\)\.\w+`).FindAllString(string(makefile), -1)
	want := []string{
		"-X github.com/brokerd/brokerd/internal/build", "$(BUILD).version", "$(BUILD).tag", "$(BUILD).commit", "$(BUILD).date",
	}
	if !slices.Equal(set, want) {
		t.Errorf("the linker sets %q, want %q", set, want)
	}
	for _, file := range []string{"../../tools/package/main.go", "../../deploy/docker/Dockerfile", "../../go.mod"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`(?m)-X\b|^godebug\b`).Find(content); found != nil {
			t.Errorf("%s has %q", file, found)
		}
	}
}

// TestGoSupportsSchedtrace runs a program with the GODEBUG value of docs/operations.md and of the
// unit's environment, except for the period, and waits for the line that it prints.
func TestGoSupportsSchedtrace(t *testing.T) {
	setting := regexp.MustCompile(`GODEBUG=(schedtrace)=2147483647`)
	var name string
	for _, file := range []string{"../../docs/operations.md", "../../deploy/systemd/brokerd.default"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := setting.FindSubmatch(content)
		if found == nil {
			t.Fatalf("%s does not name the setting", file)
		}
		name = string(found[1])
	}
	source := filepath.Join(t.TempDir(), "waits.go")
	const program = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdin.Read(make([]byte, 1)) }\n"
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	built := strings.TrimSuffix(source, ".go")
	if out, err := exec.Command("go", "build", "-o", built, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it would wait forever if nothing is printed
	defer cancel()
	c := exec.CommandContext(ctx, built)
	c.Env = append(os.Environ(), "GODEBUG="+name+"=1")
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "SCHED ") {
		t.Errorf("it printed %q, %v", line, err)
	}
	stdin.Close()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
