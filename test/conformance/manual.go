package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/brokerd/brokerd/test/steps"
)

// withPrograms is the environment in which the tested programs are installed.
func withPrograms(e env) []string {
	return append(os.Environ(), "PATH="+filepath.Join(e.root, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// manual runs the marked blocks of docs/operations and docs/guide: with one node those that need a
// running broker, with several those that start clusters of their own.
func manual(e env) (string, error) {
	count := 0
	for _, folder := range []string{"operations", "guide"} {
		for _, page := range steps.Need(filepath.Glob(filepath.Join(e.root, "docs", folder, "*.md"))) {
			steps.During(filepath.Base(page), func() {
				e := e
				e.scratch = filepath.Join(e.scratch, filepath.Base(page))
				count += follow(e, steps.Need(examples(string(steps.Need(os.ReadFile(page))))))
			})
		}
	}
	if count == 0 {
		return "", errors.New("no blocks to run")
	}
	return fmt.Sprintf("%d blocks pass", count), nil
}

// follow runs the blocks of one page that are for n nodes, and counts them.
func follow(e env, blocks []example) (count int) {
	if e.nodes > 1 {
		return runAllAlone(e, blocks)
	}
	e.work = filepath.Join(e.scratch, "work") // for their files
	steps.Must(os.MkdirAll(e.work, 0o755))
	return steps.Need(runServed(e, blocks, "brokerd", "--data-dir", filepath.Join(e.scratch, "data")))
}
