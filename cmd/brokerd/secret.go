package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/config"
)

// Limits of the cluster secret file.
const (
	minSecret  = 16 // characters
	maxSecrets = 4  // lines
)

// clusterSecret is the secret shared by the nodes of the cluster. New connections use the last
// valid version of the file.
type clusterSecret struct {
	path  string
	lines atomic.Pointer[[][]byte]
}

// loadClusterSecret reads the file named by o. It returns nil if none is configured.
func loadClusterSecret(o *config.Cluster) (*clusterSecret, error) {
	if o.SecretFile == "" {
		return nil, nil //nolint:nilnil // off is no error
	}
	s := &clusterSecret{path: o.SecretFile}
	if err := s.refresh(); err != nil {
		return nil, exitWith(exitConfig, err)
	}
	return s, nil
}

// refresh rereads the file. If it is invalid, the previous secrets stay in use.
func (s *clusterSecret) refresh() error {
	text, err := os.ReadFile(s.path)
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

// secrets returns the secret to send, and others that are accepted.
func (s *clusterSecret) secrets() [][]byte { return *s.lines.Load() }

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

// guardCluster refuses to serve other machines' nodes without authentication.
func guardCluster(o *config.Cluster, bound []net.Listener) error {
	if o.SecretFile != "" || o.TLS.CAFile != "" || o.Insecure {
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
