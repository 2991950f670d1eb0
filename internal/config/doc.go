// Package config is the configuration of one node: one table of all settings, and the
// precedence of flags, environment, TOML file and defaults.
//
// It knows names, types, units, defaults and which combinations of values are valid. It does
// not know what a setting does: it opens only the configuration file, starts nothing and logs
// nothing.
//
// Invariants:
//   - The table in settings.go is the only list of settings. Flags, environment
//     names, file keys, `config print`, the example file and the reference in
//     docs/operations.md are derived from it.
//   - Each setting is taken from the first source that sets it: flag, environment, file, default.
//   - Unknown keys and environment variables are errors.
//   - All errors are reported, not only the first.
package config
