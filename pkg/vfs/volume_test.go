package vfs

import (
	"errors"
	"testing"
)

func TestVolumeSyncMakesNamesAndContentsDurable(t *testing.T) {
	m := NewCrashable()
	if err := m.MkdirAll("a/b"); err != nil {
		t.Fatal(err)
	}
	f, err := m.Create("a/b/f")
	if err == nil {
		_, err = f.WriteAt([]byte("abc"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.CrashClone(Crash{}).Stat("a"); err == nil {
		t.Fatal("a name was durable before")
	}
	if err := syncVolume(m, "a"); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(m.CrashClone(Crash{}), "a/b/f", 10); err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
	if err := syncVolume(m, "none"); err == nil {
		t.Error("it was said of a directory that there is not")
	}
	if err := syncVolume(struct{ FS }{m}, "a"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a file system without the call: %v", err)
	}
}

func TestSystemVolumeSync(t *testing.T) {
	dir := t.TempDir()
	if err := syncVolume(OS{}, dir); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := syncVolume(OS{}, dir+"/none"); err == nil {
		t.Error("it was said of a directory that there is not")
	}
}

// syncVolume syncs the volume that holds name.
func syncVolume(fsys FS, name string) error {
	v, err := OpenVolume(fsys, name)
	if err != nil {
		return err
	}
	return errors.Join(v.Sync(), v.Close())
}
