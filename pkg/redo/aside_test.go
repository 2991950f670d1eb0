package redo

import (
	"errors"
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// asideFS counts the syncs of its files, by the method that requested them.
type asideFS struct {
	vfs.FS
	blocking, aside map[string]int
}

type asideFile struct {
	vfs.File
	name string
	fs   *asideFS
}

func (s *asideFS) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return &asideFile{f, name, s}, err
}

func (s *asideFS) OpenReadWrite(name string) (vfs.File, error) {
	f, err := s.FS.OpenReadWrite(name)
	return &asideFile{f, name, s}, err
}

func (f *asideFile) SyncData() error {
	f.fs.blocking[f.name]++
	return f.File.SyncData()
}

func (f *asideFile) SyncAside() error {
	f.fs.aside[f.name]++
	return f.File.SyncData()
}

// The journal's syncs take no runtime places from the work of other logs.
func TestJournalSyncsAside(t *testing.T) {
	disk := &asideFS{vfs.NewMem(), map[string]int{}, map[string]int{}}
	s := begun(t, disk, small())
	f := made(t, s, root+"/x")
	clear(disk.blocking)
	for off := range int64(20) {
		journaled(t, s, f, "content", 7*off)
	}
	if err := errors.Join(f.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if len(disk.blocking) > 0 || disk.aside[root+"/x"] == 0 || disk.aside[halfPath(root+"/journal", 0)] < 20 {
		t.Errorf("syncs that block: %v; aside: %v", disk.blocking, disk.aside)
	}
}
