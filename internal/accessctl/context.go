package accessctl

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// The variables by which credentials and contexts are given: none of them in a list of
// processes.
const (
	TokenVariable    = "BROKERCTL_TOKEN"
	UserVariable     = "BROKERCTL_USER"
	PasswordVariable = "BROKERCTL_PASSWORD"
	ContextVariable  = "BROKERCTL_CONTEXT"
	configVariable   = "BROKERCTL_CONFIG"
	secretVariable   = "BROKERCTL_SECRET" // what AUTH sends, where it is no token
)

const (
	maxSecretBytes = 4 << 10
	maxConfigBytes = 1 << 20
)

// cluster is where a context points, and what lets in there.
type cluster struct {
	Addresses []string `yaml:"addr,omitempty" json:"addr"`
	CACert    string   `yaml:"cacert,omitempty" json:"cacert,omitempty"`
	Cert      string   `yaml:"cert,omitempty" json:"cert,omitempty"`
	Key       string   `yaml:"key,omitempty" json:"key,omitempty"`
	Token     string   `yaml:"token,omitempty" json:"-"`
}

// contexts is the file of contexts.
type contexts struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]cluster `yaml:"contexts"`

	path string // "": nowhere
}

// contextsPath returns where the file of contexts is; "": nowhere.
func contextsPath(getenv func(string) string) string {
	if path := getenv(configVariable); path != "" {
		return path
	}
	dir, home := getenv("XDG_CONFIG_HOME"), getenv("HOME")
	if dir == "" && home == "" {
		return ""
	}
	return filepath.Join(cmp.Or(dir, filepath.Join(home, ".config")), "brokerctl", "contexts.yaml")
}

// loadContexts reads the file of contexts. Without a file there are no contexts.
func loadContexts(getenv func(string) string) (*contexts, error) {
	c := &contexts{Contexts: map[string]cluster{}, path: contextsPath(getenv)}
	if c.path == "" {
		return c, nil
	}
	text, err := readPrivate(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err = d.Decode(c); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	if c.Contexts == nil {
		c.Contexts = map[string]cluster{}
	}
	return c, nil
}

// readPrivate reads a file. It refuses one that other users than the owner may
// read.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if about, err := f.Stat(); err == nil && about.Mode().IsRegular() && about.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 %s", path, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err == nil && len(text) > maxConfigBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, maxConfigBytes)
	}
	return text, err
}

// save replaces the file, which only its owner may read.
func (c *contexts) save() error {
	if c.path == "" {
		return fmt.Errorf("contexts need a file: set HOME or %s", configVariable)
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	return writePrivate(c.path, text)
}

// writePrivate replaces a file by one that only its owner may read.
func writePrivate(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// readSecret reads a secret from the first line of a file, or of standard input: -.
func readSecret(path string, stdin io.Reader) (string, error) {
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }() // it was only read
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxSecretBytes+1))
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" || len(line) > maxSecretBytes {
		if path == "-" {
			path = "standard input"
		}
		return "", fmt.Errorf("%s: the first line has to be the secret, of at most %d bytes", path, maxSecretBytes)
	}
	return line, nil
}

// Options are the addresses and credentials: from flags, completed by Choose.
type Options struct {
	CACert, Cert, Key string // PEM files
	TokenFile         string // -: standard input
	Context           string // of the file of contexts

	chosen                bool
	addresses             []string
	token, user, password string
}

// Environment is where Options are completed from.
type Environment struct {
	Addresses []string // that were given
	Getenv    func(string) string
	Stdin     io.Reader
	Stderr    io.Writer
}

// AddFlags adds the flags of the options.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.CACert, "cacert", "", "CA certificate `FILE` for https addresses (default: the system's)")
	f.StringVar(&o.Cert, "cert", "", "client certificate `FILE` for https addresses")
	f.StringVar(&o.Key, "key", "", "private key `FILE` of the client certificate")
	f.StringVar(&o.TokenFile, "token-file", "", "read the token from the first line of a `FILE`; - is standard input\n"+
		"(default $"+TokenVariable+", or $"+UserVariable+" and $"+PasswordVariable+", else the context's)")
	f.StringVar(&o.Context, "context", "", "`NAME` of the context that has addresses and credentials\n"+
		"(default $"+ContextVariable+", else the current one, unless there are addresses)")
}

// usage makes an error one of the command line.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return api.Errorf(failure.Usage, "%w", err)
}

// Choose completes the values of flags and variables from the context, once: the named one, or the
// current one if no addresses are given. It returns the addresses.
func (o *Options) Choose(by Environment) ([]string, error) {
	if o.chosen {
		return o.addresses, nil
	}
	name := o.Context
	if name == "" && len(by.Addresses) == 0 { // addresses that are given are another cluster's, perhaps
		name = by.Getenv(ContextVariable)
	}
	var in cluster
	all, err := loadContexts(by.Getenv)
	switch {
	case err != nil && (name != "" || by.Getenv(configVariable) != ""):
		return nil, usage(err)
	case err != nil: // a file that cannot be used must not keep from working what does without
		_, _ = fmt.Fprintf(by.Stderr, "warning: %v\n", err) // the command continues without the file
	default:
		if name == "" && len(by.Addresses) == 0 {
			name = all.Current
		}
		known := false
		if in, known = all.Contexts[name]; !known && name != "" { // not NotFound: that is of what a command is about
			return nil, shell.Usage("no context %q; list them: brokerctl context list", name)
		}
	}
	if o.addresses = by.Addresses; len(o.addresses) == 0 {
		o.addresses = in.Addresses
	}
	o.CACert = cmp.Or(o.CACert, in.CACert)
	if o.Cert == "" && o.Key == "" {
		o.Cert, o.Key = in.Cert, in.Key
	}
	if err := o.chooseSecret(by, in.Token); err != nil {
		return nil, usage(err)
	}
	o.chosen = true
	return o.addresses, nil
}

// chooseSecret reads what is shown.
func (o *Options) chooseSecret(by Environment, token string) (err error) {
	switch {
	case o.TokenFile != "":
		if o.token, err = readSecret(o.TokenFile, by.Stdin); err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
	case by.Getenv(TokenVariable) != "":
		o.token = strings.TrimSpace(by.Getenv(TokenVariable))
	case by.Getenv(UserVariable) != "":
		o.user, o.password = by.Getenv(UserVariable), by.Getenv(PasswordVariable)
	default:
		o.token = token
	}
	if strings.ContainsFunc(o.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token contains invalid characters")
	}
	return nil
}

// Authorization returns the header of that name; "": nothing is shown.
func (o *Options) Authorization() string {
	switch {
	case o.token != "":
		return "Bearer " + o.token
	case o.user != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(o.user+":"+o.password))
	}
	return ""
}

// Secret returns what AUTH sends; "": nothing.
func (o *Options) Secret(getenv func(string) string) string {
	if s := getenv(secretVariable); s != "" || !access.IsToken(o.token) {
		return s
	}
	return o.token
}

// Client returns a client that adds the credentials to requests to the configured servers, but not
// to other servers that these redirect to. nil is the default client.
func (o *Options) Client(of *http.Client) *http.Client {
	of = cmp.Or(of, &http.Client{})
	if o.Authorization() == "" {
		return of
	}
	next := of.Transport
	next = cmp.Or(next, http.DefaultTransport)
	return &http.Client{
		Transport:     showing{o.Authorization(), next},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// AskingClient is Client of the HTTPClient.
func (o *Options) AskingClient() (*http.Client, error) {
	c, err := o.HTTPClient()
	if err != nil {
		return nil, err
	}
	return o.Client(c), nil
}

// showing adds the credentials to requests.
type showing struct {
	authorization string
	next          http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s showing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", s.authorization)
	return s.next.RoundTrip(r)
}

func (s *Shell) contexts() *cobra.Command {
	set := s.changeContexts(&cobra.Command{
		Use:   "set NAME",
		Short: "Create or replace a context",
		Long: `Store the addresses (--addr), the certificates (--cacert, --cert, --key) and the token (--token-file,
where - is standard input) of this command line under a name. The first context becomes the current one.
The token is copied to the file of contexts, ~/.config/brokerctl/contexts.yaml or $` + configVariable + `, which
only its owner may read; the certificates stay where they are.`,
		Example: `  brokerctl context set prod --addr https://n1.example.org:4153 --cacert ca.pem --token-file ops.token`,
	}, func(all *contexts, name string) (string, error) {
		o, by := s.Options, s.Environment()
		in := cluster{Addresses: by.Addresses, CACert: absolute(o.CACert), Cert: absolute(o.Cert), Key: absolute(o.Key)}
		switch {
		case !contextName.MatchString(name):
			return "", shell.Usage("context name %q: must have 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or a digit", name)
		case len(in.Addresses) == 0:
			return "", shell.Usage("--addr is required")
		}
		if o.TokenFile != "" {
			var err error
			if in.Token, err = readSecret(o.TokenFile, by.Stdin); err != nil {
				return "", usage(err)
			}
		}
		if all.Contexts[name] = in; len(all.Contexts) == 1 {
			all.Current = name
		}
		return "set", nil
	})
	use := s.changeContexts(&cobra.Command{
		Use: "use NAME", Short: "Select the context to use if neither --context nor --addr is given",
	}, func(all *contexts, name string) (string, error) {
		all.Current = name
		return "is used from now on", all.has(name)
	})
	remove := s.changeContexts(&cobra.Command{
		Use: "delete NAME", Short: "Delete a context and the token in it",
	}, func(all *contexts, name string) (string, error) {
		err := all.has(name)
		if delete(all.Contexts, name); all.Current == name {
			all.Current = ""
		}
		return "deleted", err
	})
	return s.group("context", "Keep addresses and credentials of clusters under names", set, use, s.listContexts(), s.showContext(), s.validateContext(), remove)
}

// contextName is what a context may be named.
var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// has returns an error unless there is the context.
func (c *contexts) has(name string) error {
	switch _, known := c.Contexts[name]; {
	case name == "":
		return api.Errorf(failure.NotFound, "no context is the current one; choose one: brokerctl context use NAME")
	case !known:
		return api.Errorf(failure.NotFound, "no context %q; list them: brokerctl context list", name)
	}
	return nil
}

// absolute returns a path that means the same in other directories.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil && path != "" {
		return full
	}
	return path
}

// changeContexts makes a command that changes the contexts, and works without the current one.
func (s *Shell) changeContexts(cmd *cobra.Command, do func(all *contexts, name string) (done string, err error)) *cobra.Command {
	cmd.Args = s.need(1, 1, "a NAME")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return s.Prepare() }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := loadContexts(s.Environment().Getenv)
		if err != nil {
			return usage(err)
		}
		done, err := do(all, args[0])
		if err != nil {
			return err
		}
		if err := all.save(); err != nil {
			return err
		}
		return s.Show(cmd, said(map[string]string{"context": args[0], "action": done}, args[0], "context %s %s", args[0], done))
	}
	return cmd
}
