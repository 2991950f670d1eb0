package node

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/admin/nsqd"
)

// runtimeConfig is the node's configuration as the HTTP API reads and changes
// it, under nsqd's names. It implements nsqd.Config.
type runtimeConfig struct {
	options  config.Options
	lookupds *Lookupds
	level    *logLevel
}

// nsqdLevels are the numbers that nsqd gives the levels.
func nsqdLevel(l slog.Level) int {
	switch {
	case l < slog.LevelInfo:
		return 1
	case l < slog.LevelWarn:
		return 2
	case l < slog.LevelError:
		return 3
	}
	return 4
}

// Option implements nsqd.Config.
func (c *runtimeConfig) Option(name string) (any, bool) {
	switch name {
	case "log_level":
		return nsqdLevel(c.level.level.Level()), true
	case "nsqlookupd_tcp_addresses", "lookupd_tcp_addresses":
		return append([]string{}, c.lookupds.Addresses()...), true
	}
	key := strings.ReplaceAll(name, "_", "-")
	for _, s := range c.options.Settings() {
		if s.Key == key {
			return shown(s.JSON()), true
		}
	}
	return nil, false
}

// shown returns the value of a setting without the passwords in its URLs.
func shown(v any) any {
	switch v := v.(type) {
	case string:
		return withoutPasswords(v)
	case []string:
		all := make([]string, len(v))
		for i := range v {
			all[i] = withoutPasswords(v[i])
		}
		return all
	}
	return v
}

// SetOption implements nsqd.Config.
func (c *runtimeConfig) SetOption(name string, value []byte) error {
	switch name {
	case "log_level":
		level := strings.ToLower(string(value))
		if level == "fatal" {
			level = "error"
		}
		if err := new(slog.LevelVar).UnmarshalText([]byte(level)); err != nil {
			return err
		}
		c.level.set(level, 0)
		return nil
	case "nsqlookupd_tcp_addresses", "lookupd_tcp_addresses":
		var addresses []string
		if err := jsonbytes.Unmarshal(value, &addresses); err != nil {
			return errors.New("must be a list of addresses")
		}
		c.lookupds.SetAddresses(addresses)
		return nil
	}
	return nsqd.ErrUnknownOption
}
