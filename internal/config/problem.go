package config

import (
	"fmt"
	"strings"
)

// Problem is one mistake in the configuration.
type Problem struct {
	Where string // "flag --x", "environment BROKERD_X", "file.toml:3:1", or ""
	Text  string
	Quote string // the offending line with its number and a mark; "": none
	Flag  bool   // it was made on the command line
}

// Problems is every mistake that Load found. It is an error.
type Problems []Problem

// Error lists the mistakes, one a line, each with the line of the file it is in.
func (ps Problems) Error() string {
	var b strings.Builder
	if len(ps) == 1 {
		b.WriteString("1 configuration error:")
	} else {
		fmt.Fprintf(&b, "%d configuration errors:", len(ps))
	}
	for _, p := range ps {
		b.WriteString("\n  ")
		if p.Where != "" {
			b.WriteString(p.Where + ": ")
		}
		b.WriteString(p.Text)
		if p.Quote != "" {
			b.WriteString("\n" + p.Quote)
		}
	}
	return b.String()
}

// Usage reports whether every mistake was made on the command line.
func (ps Problems) Usage() bool {
	for _, p := range ps {
		if !p.Flag {
			return false
		}
	}
	return len(ps) > 0
}
