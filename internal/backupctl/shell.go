// Package backupctl is brokerctl's commands for backups. It knows their flags, and chooses the store
// by its location. What is read and written belongs to internal/backups and pkg/backup.
package backupctl

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/backups"
	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/backup/s3store"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// Shell is what the commands have around them. All of it is required.
type Shell struct {
	*shell.Shell
	Quiet           func() bool // without progress
	Now             func() time.Time
	Getenv          func(string) string
	Tool, UserAgent string // the program, for manifests and for services

	s3        s3store.Options
	pathStyle bool
}

// Command returns the group of commands.
func (s *Shell) Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Back topics up to a directory or an S3 bucket, and restore them",
		Long: `Back topics up to a store, and restore them. A STORE is a local directory, or a bucket of Amazon S3 or of a
compatible service: s3://BUCKET or s3://BUCKET/PREFIX. Several clusters need different directories or prefixes.

Credentials for a bucket come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), or from the
files of the AWS programs (~/.aws/credentials and ~/.aws/config, with AWS_PROFILE). The bucket must exist.`,
		RunE: s.Group,
	}
	f := cmd.PersistentFlags()
	f.StringVar(&s.s3.Endpoint, "s3-endpoint", "", "`URL` of the S3 service; http:// without TLS\n(default $AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, else Amazon's)")
	f.StringVar(&s.s3.Region, "s3-region", "", "`REGION` of the bucket (default $AWS_REGION, $AWS_DEFAULT_REGION, else ask the service)")
	f.BoolVar(&s.pathStyle, "s3-path-style", false, "name the bucket in the path of requests, or with =false in the host name\n(default: as the endpoint needs it)")
	f.StringVar(&s.s3.CAFile, "s3-ca-file", "", "`FILE` with certificates of authorities to trust, for an S3 service with TLS\n(default $AWS_CA_BUNDLE, else those of the system)")
	cmd.AddCommand(s.create(), s.list(), s.verify(), s.restore(), s.delete(), s.prune())
	return cmd
}

// unknownScheme begins the location of a store of another kind.
var unknownScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// open returns the repository at a location.
func (s *Shell) open(cmd *cobra.Command, location string) (*backup.Repository, error) {
	if !strings.HasPrefix(location, s3store.Scheme) {
		if unknownScheme.MatchString(location) {
			return nil, shell.Usage("%q: a store is a directory or s3://BUCKET/PREFIX", location)
		}
		return backup.In(backup.Dir(location)), nil
	}
	o := s.s3
	o.Getenv, o.UserAgent = s.Getenv, s.UserAgent
	if cmd.Flags().Changed("s3-path-style") {
		o.PathStyle = &s.pathStyle
	}
	store, err := s3store.Open(location, o)
	if err != nil {
		return nil, shell.Usage("%w", err)
	}
	return backup.In(store), nil
}

// in creates a command for a store. With more, other arguments may follow.
func (s *Shell) in(cmd *cobra.Command, more bool, run func(cmd *cobra.Command, r *backup.Repository, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || args[0] == "":
			return shell.Usage("%s requires a STORE: a directory or s3://BUCKET/PREFIX", cmd.CommandPath())
		case len(args) > 1 && !more:
			return shell.Usage("unexpected argument %q for %s", args[1], cmd.CommandPath())
		}
		r, err := s.open(cmd, args[0])
		if err != nil {
			return err
		}
		return refused(run(cmd, r, args[1:]))
	}
	return cmd
}

// refused adds a code to an error. Other errors, and nil, are unchanged.
func refused(err error) error {
	if err == nil || api.CodeOf(err) != "" {
		return err
	}
	is := func(target error) bool { return errors.Is(err, target) }
	f := api.Errorf("", "%w", err)
	f.Fate = "" // a store may fail in the middle of a command
	switch {
	case is(backup.ErrNoBackup), is(errNoTopic):
		f.Code, f.Fate = failure.NotFound, fate.Refused.String()
	case is(s3store.ErrNoBucket):
		f.Code = failure.NotFound
	case is(backup.ErrIncomplete), is(backup.ErrNewerFormat), is(backups.ErrTopicThere), is(backups.ErrBrokenOff), is(backup.ErrBusy):
		f.Code, f.Fate = failure.Precondition, fate.Refused.String()
	case is(s3store.ErrDenied):
		f.Code, f.Hint = failure.Forbidden, "check the credentials; their key needs the rights to list the bucket, and to get, put and delete objects below the prefix"
	case is(s3store.ErrUnreachable):
		f.Code, f.Hint = failure.Unavailable, "check --s3-endpoint, the network and TLS"
	case is(s3store.ErrBusy):
		f.Code, f.Hint = failure.Busy, "retry later: the service limits requests, or fails"
	default:
		return err
	}
	return f
}

// cluster returns the cluster of the client.
func (s *Shell) cluster() *backups.Cluster {
	return &backups.Cluster{Client: s.Client(), Timeout: s.Timeout(), Now: s.Now}
}

// progress writes a line about work in progress.
func (s *Shell) progress(cmd *cobra.Command, text string, args ...any) {
	if !s.Quiet() {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), text+"\n", args...)
	}
}
