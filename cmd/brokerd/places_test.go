package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestOneProcessorGivesTwoPlaces(t *testing.T) {
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

// TestGoKnowsTheBuildsSetting builds a program as the Makefile does, but for the
// period, and waits for the line that it then prints.
func TestGoKnowsTheBuildsSetting(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	setting := regexp.MustCompile(`(?m)^RUNTIME +:= (.*schedtrace=)\d+$`).FindSubmatch(makefile)
	if setting == nil {
		t.Fatal("the Makefile has no such setting")
	}
	source := filepath.Join(t.TempDir(), "waits.go")
	const program = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdin.Read(make([]byte, 1)) }\n"
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	built := strings.TrimSuffix(source, ".go")
	if out, err := exec.Command("go", "build", "-ldflags", string(setting[1])+"1", "-o", built, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it would wait for ever where it prints nothing
	defer cancel()
	c := exec.CommandContext(ctx, built)
	c.Env = append(os.Environ(), "GODEBUG=")
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
