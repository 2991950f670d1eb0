package snapshots

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Write(file, []byte("content")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", "-", dir, link, os.DevNull} {
		if name == os.DevNull && os.Getuid() == 0 {
			continue // a bug must not harm the machine
		}
		if err := Write(name, []byte("content")); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	if text, err := Read(file); err != nil || string(text) != "content" {
		t.Errorf("%q, %v", text, err)
	}
	for _, name := range []string{dir, os.DevNull} {
		if _, err := Read(name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
