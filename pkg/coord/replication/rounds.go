package replication

import (
	"github.com/brokerd/brokerd/internal/stack"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// goOn has the waiting requests handled by other goroutines than the caller's.
func goOn(f *Follower) {
	if r, ok := f.queue.next(); ok && !join(f, r) {
		go f.workFrom(r)
	}
}

// join lets the file system write a put in its next round, together with those of other
// partitions: see vfs.Member. It returns false if this log is better synced alone.
func join(f *Follower, r request) bool {
	if r.kind != KindPut || f.writer == nil || !f.known || !f.following.Sync.Always() {
		return false
	}
	f.first = r
	if f.writer.Join(roundOf{f}) {
		return true
	}
	f.first = request{} // it may be large, and no other may follow for long
	return false
}

// roundOf is a follower as a member of a round.
type roundOf struct{ f *Follower }

// Write implements vfs.Member. It writes the puts that wait together, as workFrom
// does.
func (m roundOf) Write(with *vfs.Gathering) vfs.Sync {
	f := m.f
	r := f.first
	f.first = request{}
	for {
		if !f.writer.Quick(len(r.payload)) {
			go f.workFrom(r)
			return nil
		}
		a, sync := f.do(r)
		f.group = append(f.group, held{request{reply: r.reply, by: r.by}, a})
		ok := false
		if sync && len(f.group) < maxGroup {
			r, ok = f.queue.nextPut()
		}
		if !ok {
			return m.begin(with, sync)
		}
	}
}

// begin begins the sync that a group needs, or answers it.
func (m roundOf) begin(with *vfs.Gathering, last bool) vfs.Sync {
	f := m.f
	if owesSync(f, last) {
		var ok bool
		if f.syncing, ok = f.syncer.Begin(); ok {
			return f.syncing.Sync()
		}
		go func() {
			stack.Grow()
			f.answerGroup(last)
			goOn(f)
		}()
		return nil
	}
	answerAll(f, with, nil)
	goOn(f)
	return nil
}

// Synced implements vfs.Member.
func (m roundOf) Synced(with *vfs.Gathering, err error) {
	s := m.f.syncing
	m.f.syncing = commitlog.Syncing{}
	answerAll(m.f, with, s.End(err))
	goOn(m.f)
}

// owesSync reports whether a group must be synced before it is answered. last means that its last
// request demands that.
func owesSync(f *Follower, last bool) bool {
	return (last || len(f.group) > 1) && f.log.DurableEnd() < f.log.End()
}
