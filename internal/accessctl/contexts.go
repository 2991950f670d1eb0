package accessctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// listedContext is a context without its token.
type listedContext struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Token   string `json:"token,omitempty"` // without the secret
	cluster
}

func (c *contexts) listed(name string) listedContext {
	in := c.Contexts[name]
	token := access.Redact(in.Token)
	if token != "" && !access.IsToken(in.Token) {
		token = "set"
	}
	return listedContext{name, name == c.Current, token, in}
}

// readContexts makes a command that needs the contexts, and not that one can be used: the named one or, without
// a name, the current one; without either, the name is "".
func (s *Shell) readContexts(cmd *cobra.Command, most int, do func(cmd *cobra.Command, all *contexts, name string) error) *cobra.Command {
	cmd.Args = s.need(0, most, "at most a NAME")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return s.Prepare() }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		by := s.Environment()
		all, err := loadContexts(by.Getenv)
		if err != nil {
			return usage(err)
		}
		name := cmp.Or(strings.Join(args, ""), s.Options.Context, by.Getenv(ContextVariable), all.Current)
		return do(cmd, all, name)
	}
	return cmd
}

func (s *Shell) listContexts() *cobra.Command {
	return s.readContexts(&cobra.Command{Use: "list", Short: "List the contexts, without their secrets"}, 0, func(cmd *cobra.Command, all *contexts, _ string) error {
		a := output.Answer{Header: []string{"NAME", "CURRENT", "ADDR", "TOKEN", "+CACERT", "+CERT"}}
		list := []listedContext{}
		for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
			list = append(list, all.listed(name))
		}
		for _, c := range list {
			a.Rows = append(a.Rows, []any{c.Name, yesOr(c.Current), strings.Join(c.Addresses, ","), c.Token, c.CACert, c.Cert})
		}
		a.Object, a.Lines, a.Names = map[string]any{"contexts": list}, listing.Lines(list), listing.Names(list, func(c listedContext) string { return c.Name })
		return s.Show(cmd, a)
	})
}

func (s *Shell) showContext() *cobra.Command {
	return s.readContexts(&cobra.Command{
		Use:   "show [NAME]",
		Short: "Show a context, or the current one, without its secret",
	}, 1, func(cmd *cobra.Command, all *contexts, name string) error {
		if err := all.has(name); err != nil {
			return err
		}
		c := all.listed(name)
		return s.Show(cmd, output.Answer{Object: c, Names: []string{name}, Header: []string{"SETTING", "VALUE"}, Rows: [][]any{
			{"name", c.Name},
			{"current", yesOr(c.Current)},
			{"addr", strings.Join(c.Addresses, ",")},
			{"token", c.Token},
			{"cacert", c.CACert},
			{"cert", c.Cert},
			{"key", c.Key},
			{"file", all.path},
		}})
	})
}

// checkedAddress is the result of asking one address of a context.
type checkedAddress struct {
	Address string `json:"addr"`
	OK      bool   `json:"ok"`
	Node    string `json:"node,omitempty"`
	Cluster string `json:"cluster_id,omitempty"`
	User    string `json:"user,omitempty"` // "": access control is off, or the context has no credentials
	Error   string `json:"error,omitempty"`
	err     error
}

func (s *Shell) validateContext() *cobra.Command {
	return s.readContexts(&cobra.Command{
		Use:   "validate [NAME]",
		Short: "Check that a context, or the current one, can be used",
		Long: `Read the certificates of a context, and ask each of its addresses for the cluster and for the user of the token.
Credentials in variables of the environment are not used. The exit code is that of the first failure, or 7 if some of the
addresses work.`,
	}, 1, func(cmd *cobra.Command, all *contexts, name string) error {
		if err := all.has(name); err != nil {
			return err
		}
		checked, err := checkContext(cmd.Context(), all, name, s.Timeout())
		if err != nil {
			return err
		}
		a := output.Answer{Object: map[string]any{"context": name, "addresses": checked}, Lines: listing.Lines(checked), Names: listing.Names(checked, func(c checkedAddress) string { return c.Address })}
		a.Header = []string{"ADDR", "OK", "NODE", "CLUSTER", "USER", "ERROR"}
		for _, c := range checked {
			a.Rows = append(a.Rows, []any{c.Address, yesOr(c.OK), c.Node, c.Cluster, c.User, c.Error})
		}
		if err := s.Show(cmd, a); err != nil {
			return err
		}
		return verdictOf(name, checked)
	})
}

// verdictOf returns the failure of a context; nil if it can be used.
func verdictOf(name string, checked []checkedAddress) error {
	clusters, failed := map[string]bool{}, []checkedAddress{}
	for _, c := range checked {
		if c.OK {
			clusters[c.Cluster] = true
		} else {
			failed = append(failed, c)
		}
	}
	switch {
	case len(clusters) > 1:
		return api.Errorf(failure.Failed, "context %s has addresses of %d clusters: commands would reach any of them", name, len(clusters))
	case len(failed) == 0:
		return nil
	case len(failed) == len(checked):
		return failed[0].err
	}
	return api.Errorf(failure.Partial, "context %s: %d of %d addresses do not work: %s", name, len(failed), len(checked), failed[0].Error)
}

// checkContext asks each address of a context. The error is that of its certificates or its token.
func checkContext(ctx context.Context, all *contexts, name string, timeout time.Duration) ([]checkedAddress, error) {
	o := Options{Context: name}
	own := func(variable string) string { // what the context does not say is not used
		if variable == configVariable {
			return all.path
		}
		return ""
	}
	addresses, err := o.Choose(Environment{Getenv: own, Stdin: strings.NewReader(""), Stderr: io.Discard})
	if err != nil {
		return nil, err
	}
	overHTTP, err := o.HTTPClient()
	if err != nil {
		return nil, err
	}
	checked := make([]checkedAddress, len(addresses))
	for i, at := range addresses {
		c := checkedAddress{Address: at}
		client, err := api.NewClient(api.ClientOptions{Addresses: []string{at}, HTTP: overHTTP, Authorization: o.Authorization()})
		if err == nil {
			err = c.ask(ctx, client, timeout)
		}
		if c.OK = err == nil; err != nil {
			c.Error, c.err = err.Error(), fmt.Errorf("context %s, %s: %w", name, at, err)
		}
		checked[i] = c
	}
	return checked, nil
}

// ask asks the node at the address who it is, and who the user is.
func (c *checkedAddress) ask(ctx context.Context, client *api.Client, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	self, err := client.Access.Self(ctx)
	if err != nil {
		return err
	}
	c.User = self.User
	is, err := client.Cluster(ctx)
	switch {
	case api.CodeOf(err) == failure.Forbidden: // a user that only publishes, for example
		return nil
	case err != nil:
		return err
	}
	c.Node, c.Cluster = is.Self, is.ClusterID
	return nil
}
