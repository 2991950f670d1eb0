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

// Script is a shell command that restarts a node. It refers to the node by fields such as {{.Node}}.
type Script struct{ text *template.Template }

// fields are the fields that a script may use.
type fields struct {
	Node, Host, Hostname, TCPAddress, HTTPAddress, ClusterAddress string
}

// ParseScript parses a script. It fails if the text is not a template, or uses other fields than Node,
// Host, Hostname, TCPAddress, HTTPAddress and ClusterAddress.
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

// plain matches values of a node that are safe in a shell command.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.:\[\]%-]*$`)

// For returns the command for a node. It fails if the node advertises a value that a shell would not
// read as one word.
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

// Run runs the command for a node in a shell, and writes its output to out. Background processes of the
// command continue.
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
