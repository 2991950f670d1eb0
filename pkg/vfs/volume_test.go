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

func TestReleasesOfTheKernel(t *testing.T) {
	for release, want := range map[string]bool{
		"5.8.0": true, "5.8": true, "5.10.0-8-amd64": true, "6.1.0-rc3+": true, "10.0": true,
		"5.7.19": false, "4.19.0-25-cloud": false, "4.9": false, "": false, "x": false,
	} {
		if got := atLeast(release, 5, 8); got != want {
			t.Errorf("%q: %v", release, got)
		}
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
