package node

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/access"
)

// FirstAdminFile is the name of the file with the secret, in the data directory. Its mode is
// 0600: a user that can read it can read the data anyway.
const FirstAdminFile = "first-administrator"

// firstAdmin is the secret with which the first administrator is created. Each node has its
// own, as long as the cluster has no administrator with a credential that is valid at the node
// and does not expire; the file is removed when there is such an administrator.
type firstAdmin struct {
	path         string // "": there is no secret
	recovery     bool   // there is a secret even if there is an administrator
	certificates bool   // the node verifies those of clients
	directory    func() *access.Directory
	log          *slog.Logger
	secret       atomic.Pointer[string] // nil: there is none
	settled      bool                   // the last attempt to write or remove the file succeeded; run owns it once it was called
}

func newFirstAdmin(c *Config, directory func() *access.Directory) *firstAdmin {
	return &firstAdmin{
		path: c.FirstAdminFile, recovery: c.Options.Access.Recovery, certificates: verifiesClients(&c.Options), directory: directory, log: c.Log,
	}
}

// verifiesClients reports whether client certificates are identities at the node.
func verifiesClients(o *config.Options) bool { return o.TLS.ClientAuthPolicy == "require-verify" }

// wanted reports whether there should be a secret.
func (f *firstAdmin) wanted() bool { return f.recovery || !f.directory().HasAdmin(f.certificates) }

// is reports whether a text is the secret.
func (f *firstAdmin) is(text string) bool {
	secret := f.secret.Load()
	return secret != nil && f.wanted() && subtle.ConstantTimeCompare([]byte(*secret), []byte(text)) == 1
}

// refresh writes the file with a new secret, or removes it, where that is due.
func (f *firstAdmin) refresh() error {
	if f.path == "" {
		return nil
	}
	switch has := f.secret.Load() != nil; {
	case f.wanted() && !has:
		text, _, err := access.NewToken(rand.Reader)
		if err == nil {
			err = f.remove() // of the process before: its mode may be another
		}
		if err == nil {
			err = writePrivate(f.path, text+"\n")
		}
		if err != nil {
			return fmt.Errorf("write the secret of the first administrator: %w", err)
		}
		f.secret.Store(&text)
		if f.recovery {
			f.log.Warn("access-recovery is on: everyone who can read the file can create administrators; restart without this setting after the recovery", "file", f.path)
		}
	case !f.wanted():
		f.secret.Store(nil)
		if err := f.remove(); err != nil {
			return fmt.Errorf("remove the secret of the first administrator, which is no longer valid: %w", err)
		}
	}
	return nil
}

// settle is refresh that logs a failure, after which run retries. It does not prevent a start: on a disk without a free
// byte, consuming has to continue to free some.
func (f *firstAdmin) settle() {
	err := f.refresh()
	if f.settled = err == nil; !f.settled {
		f.log.Warn("cannot create or remove the file with the secret of the first administrator: until then no first administrator can be created, or an invalid secret stays on disk; retrying", "error", strings.TrimSpace(err.Error()), "in", firstAdminRetry)
	}
}

func (f *firstAdmin) remove() error {
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writePrivate creates a file that only its owner may read. If the machine fails before it is on
// disk, the next start writes another.
func writePrivate(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// firstAdminRetry is how long after a failure the file is written or removed again.
const firstAdminRetry = 10 * time.Second

// run keeps the file as it has to be, until ctx ends.
func (f *firstAdmin) run(ctx context.Context, changed func() <-chan struct{}) {
	was := f.wanted()
	for {
		next, again := changed(), (<-chan time.Time)(nil)
		if is := f.wanted(); is != was || !f.settled {
			was = is
			f.settle()
		}
		if !f.settled {
			again = time.After(firstAdminRetry)
		}
		select {
		case <-next:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}
