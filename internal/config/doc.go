// Package config is the configuration of one node: every setting in one table,
// and the rule by which flags, the environment, a TOML file and the defaults
// are laid over each other.
//
// It knows names, types, units, defaults and what values make sense together.
// It refuses to know what a setting does: it opens nothing but the file that
// it is told to read, starts nothing and logs nothing.
//
// Invariants:
//   - The table in settings.go is the only list of settings. Flags, environment
//     names, file keys, `config print`, the example file and the reference in
//     docs/operations.md are derived from it.
//   - Flag beats environment beats file beats default, for each setting alone.
//   - Nothing unknown is ignored: not a key, not an environment variable.
//   - Every mistake is reported, not just the first.
package config
