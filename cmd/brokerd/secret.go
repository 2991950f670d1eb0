package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Limits of the cluster secret file.
const (
	minSecret  = 16 // characters
	maxSecrets = 4  // lines
)

// ownSecretFile is the name of the file, in the data directory, with the secret that the node has created.
// It is in use unless cluster-secret-file names another one.
const ownSecretFile = "cluster-secret"

// clusterSecret is the secret shared by the nodes of the cluster, if there is one. New connections use
// the last valid version of the file.
type clusterSecret struct {
	path  string
	own   bool                     // the node creates the file when it is asked to
	lines atomic.Pointer[[][]byte] // nil: no secret is required
}

// loadClusterSecret reads the file that is configured, or the one that the node has created.
func loadClusterSecret(o *config.Options) (*clusterSecret, error) {
	s := &clusterSecret{path: o.Cluster.SecretFile}
	if s.path == "" {
		s.path, s.own = filepath.Join(o.DataDir, ownSecretFile), true
	}
	if err := s.refresh(); err != nil {
		return nil, exitWith(exitConfig, err)
	}
	return s, nil
}

// create writes a new secret to a file of its own, which only the node's user can read, and requires it
// of new connections from then on. It returns the file's path.
func (s *clusterSecret) create() (path string, err error) {
	switch {
	case s.lines.Load() != nil:
		return s.path, nil
	case !s.own:
		return "", fmt.Errorf("cluster-secret-file %s is set", s.path)
	}
	if err := writeSecret(s.path, rand.Text()+rand.Text()); err != nil {
		return "", fmt.Errorf("create cluster secret: %w", err)
	}
	return s.path, s.refresh()
}

// writeSecret writes a file that only its owner may read. It is whole and on disk when writeSecret returns.
func writeSecret(path, text string) error {
	temp := path + vfs.TempSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return vfs.OS{}.SyncDir(filepath.Dir(path))
}

// refresh rereads the file. If it is invalid, the previous secrets stay in use.
func (s *clusterSecret) refresh() error {
	text, err := os.ReadFile(s.path)
	if s.own && s.lines.Load() == nil && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cluster-secret-file: %w", err)
	}
	var lines [][]byte
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if len(line) < minSecret {
			return fmt.Errorf("cluster-secret-file %s: a line has %d characters; a secret needs at least %d, for example from `openssl rand -base64 32`", s.path, len(line), minSecret)
		}
		lines = append(lines, []byte(line))
	}
	if len(lines) == 0 || len(lines) > maxSecrets {
		return fmt.Errorf("cluster-secret-file %s: %d secrets found; 1 to %d are allowed, one per line", s.path, len(lines), maxSecrets)
	}
	s.lines.Store(&lines)
	return nil
}

// secrets returns the secret to send, and others that are accepted; none if none is required.
func (s *clusterSecret) secrets() [][]byte {
	if lines := s.lines.Load(); lines != nil {
		return *lines
	}
	return nil
}

// maxJoinToken is the maximum size of the file with a join token, in bytes.
const maxJoinToken = 4096

// joinToken returns what reads the join token of the node from a file. It is not read before a node
// without data joins a cluster: a member needs no token, and its file may be gone.
func joinToken(path string) func() (string, error) {
	if path == "" {
		return nil
	}
	return func() (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("join-token-file: %w", err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxJoinToken+1))
		switch text = bytes.TrimSpace(text); {
		case err != nil:
			return "", fmt.Errorf("join-token-file: %w", err)
		case len(text) == 0 || len(text) > maxJoinToken:
			return "", fmt.Errorf("join-token-file %s: it has no token, or more than one", path)
		}
		return string(text), nil
	}
}

// openToOthers reports whether users other than the owner and group of a file may read it.
func openToOthers(path string) bool {
	about, err := os.Stat(path)
	return err == nil && about.Mode()&fs.FileMode(0o004) != 0
}

// open reports whether any process that reaches the cluster port can be a node.
func (s *clusterSecret) open(o *config.Cluster, bound []net.Listener) bool {
	return len(bound) > 0 && o.TLS.CAFile == "" && s.lines.Load() == nil
}

// guardCluster refuses to serve other machines' nodes without authentication.
func (s *clusterSecret) guardCluster(o *config.Cluster, bound []net.Listener) error {
	if !s.open(o, bound) || o.Insecure {
		return nil
	}
	for _, l := range bound {
		if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
			return exitWith(exitConfig, fmt.Errorf("cluster-address: %w, %s: configure the same cluster-secret-file on all nodes, or set cluster-tls-cert, cluster-tls-key and cluster-tls-ca; or bind it to a loopback address; or set insecure-cluster on an isolated network",
				errOpenCluster, at))
		}
	}
	return nil
}

var errOpenCluster = errors.New("reachable from other machines without authentication of nodes")
