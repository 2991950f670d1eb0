package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestEveryJobOfNSQJIsExpected(t *testing.T) {
	if n := bytes.Count(nsqjProgram, []byte("\n        JOBS.put(")); n != nsqjJobs {
		t.Errorf("Jobs.java has %d jobs, and %d are expected", n, nsqjJobs)
	}
}

func TestFilesOtherThanThePinnedAreRefused(t *testing.T) {
	const list = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  a.jar\n" // of "x"
	for name, c := range map[string]struct {
		files map[string]string
		ok    bool
	}{
		"the same":        {map[string]string{"a.jar": "x"}, true},
		"another content": {map[string]string{"a.jar": "y"}, false},
		"one too many":    {map[string]string{"a.jar": "x", "b.jar": "x"}, false},
		"none":            {nil, false},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := checkSums(dir, []byte(list)); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
