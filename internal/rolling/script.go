package rolling

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Script is a command for the shell that restarts a node. It names the node by fields such as {{.Node}}.
type Script struct{ text *template.Template }

// fields are the names that a script may use.
type fields struct {
	Node, Host, Hostname, TCPAddress, HTTPAddress, ClusterAddress string
}

// ParseScript returns the script of a text. It fails where the text is no template, or uses other fields than
// Node, Host, Hostname, TCPAddress, HTTPAddress and ClusterAddress.
func ParseScript(text string) (*Script, error) {
	t, err := template.New("exec").Parse(text)
	if err != nil {
		return nil, err
	}
	if err := t.Execute(io.Discard, fields{}); err != nil {
		return nil, fmt.Errorf("%w; fields are {{.Node}}, {{.Host}}, {{.Hostname}}, {{.TCPAddress}}, {{.HTTPAddress}} and {{.ClusterAddress}}", err)
	}
	return &Script{t}, nil
}

// plain is what a node may say of itself for a shell to see.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.:\[\]%-]*$`)

// For returns the command for a node. It fails where the node advertises something that a shell would read as more
// than a word.
func (s *Script) For(n *api.NodeDetail) (string, error) {
	host, _, err := net.SplitHostPort(n.TCPAddress)
	if err != nil {
		host = n.TCPAddress
	}
	f := fields{n.ID, host, n.Hostname, n.TCPAddress, n.HTTPAddress, n.ClusterAddress}
	for _, v := range []string{f.Node, f.Host, f.Hostname, f.TCPAddress, f.HTTPAddress, f.ClusterAddress} {
		if !plain.MatchString(v) {
			return "", fmt.Errorf("node %s advertises %q, which is not safe to pass to a shell: nothing was run", n.ID, v)
		}
	}
	var line strings.Builder
	if err := s.text.Execute(&line, f); err != nil {
		return "", err
	}
	return line.String(), nil
}

// Run has the shell run the command for a node, and writes what that prints to out. What the command leaves in the
// background continues.
func (s *Script) Run(ctx context.Context, n *api.NodeDetail, out io.Writer) error {
	line, err := s.For(n)
	if err != nil {
		return err
	}
	shell := exec.CommandContext(ctx, "sh", "-c", line)
	shell.Stdout, shell.Stderr = out, out
	shell.WaitDelay = time.Second // a background process may hold the output open
	if err := shell.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("command %q: %w", line, err)
	}
	return nil
}
