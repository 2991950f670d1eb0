package logtest

import (
	"strings"
	"unicode"
)

// Doubled returns the words that an error in a text says twice in a row, such as "remove n4" in
// "remove n4: remove n4: node not found". "": none.
func Doubled(text string) string {
	for line := range strings.Lines(text) {
		before, rest, more := strings.Cut(line, ": ")
		for more {
			var said string
			said, rest, more = strings.Cut(rest, ": ")
			words := said
			if end := strings.IndexAny(words, "\"\n"); end >= 0 {
				words = words[:end]
			}
			lead, again := strings.CutSuffix(before, words)
			if again && strings.ContainsFunc(words, unicode.IsLetter) && (lead == "" || strings.ContainsAny(lead[len(lead)-1:], " \"=")) {
				return words
			}
			before = said
		}
	}
	return ""
}
