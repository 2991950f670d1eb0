package brokertest

import (
	"errors"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

var errUnplugged = errors.New("node killed: nothing is written")

// disk is the file storage of one start of a node. The next start finds what was written, but once
// it is unplugged this start writes nothing.
type disk struct{ topics, marks *vfstest.Faulty }

func newDisk(topics vfs.FS) *disk {
	return &disk{vfstest.NewFaulty(topics), vfstest.NewFaulty(vfs.OS{})}
}

func (d *disk) unplug() {
	for _, fs := range []*vfstest.Faulty{d.topics, d.marks} {
		fs.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{Err: errUnplugged} })
	}
}
