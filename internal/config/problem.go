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

// nearest returns the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	best, bestDistance := "", len(name)/3+1
	for _, c := range candidates {
		if d := distance(name, c); d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
