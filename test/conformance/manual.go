package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// withPrograms is the environment in which the tested programs are installed.
func withPrograms(e env) []string {
	return append(os.Environ(), "PATH="+filepath.Join(e.root, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// manual runs the marked blocks of docs/operations and docs/guide: with one node those that need a
// running broker, with several those that start clusters of their own.
func manual(e env) (string, error) {
	pages, err := filepath.Glob(filepath.Join(e.root, "docs", "operations", "*.md"))
	guides, err2 := filepath.Glob(filepath.Join(e.root, "docs", "guide", "*.md"))
	if err := errors.Join(err, err2); err != nil {
		return "", err
	}
	pages = append(pages, guides...)
	count := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return "", err
		}
		all, err := examples(string(text))
		if err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(page), err)
		}
		e := e
		e.scratch = filepath.Join(e.scratch, filepath.Base(page))
		ran, err := follow(e, all)
		if err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(page), err)
		}
		count += ran
	}
	if count == 0 {
		return "", errors.New("no blocks to run")
	}
	return fmt.Sprintf("%d blocks pass", count), nil
}

// follow runs the blocks of one page that are for n nodes, and counts them.
func follow(e env, blocks []example) (count int, err error) {
	if e.nodes > 1 {
		return runAllAlone(e, blocks)
	}
	e.work = filepath.Join(e.scratch, "work") // for their files
	if err := os.MkdirAll(e.work, 0o755); err != nil {
		return 0, err
	}
	return runServed(e, blocks, "brokerd", "--data-dir", filepath.Join(e.scratch, "data"))
}
