package main

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// hintTimeout bounds what is spent on finding a better name.
const hintTimeout = 2 * time.Second

// didYouMean is the hint that proposes another name.
func didYouMean(name string) string { return fmt.Sprintf("did you mean %q?", name) }

// nameWhatIsMissing reports whether the topic or the channel is missing, and which
// name comes near. It leaves the answer as it is where the broker cannot tell.
func nameWhatIsMissing(ctx context.Context, g *globals, n named, answer *api.Error) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	topics, err := g.client.Topics(ctx)
	if err != nil {
		return
	}
	var names []string
	for _, t := range topics {
		if t.Name != n.topic {
			names = append(names, t.Name)
			continue
		}
		if n.channel == "" {
			return
		}
		names = names[:0]
		for _, c := range t.Channels {
			if c.Name == n.channel {
				return
			}
			names = append(names, c.Name)
		}
		answer.Message = fmt.Sprintf("channel %q of topic %q not found", n.channel, n.topic)
		propose(answer, n.channel, names)
		return
	}
	answer.Message = fmt.Sprintf("topic %q not found", n.topic)
	propose(answer, n.topic, names)
}

func propose(answer *api.Error, name string, known []string) {
	if best, ok := nearest(name, known); ok {
		answer.Hint = didYouMean(best)
	}
}

// nearest returns the known name that takes the fewest edits, if it is near.
func nearest(name string, known []string) (string, bool) {
	limit := max(1, len(name)/3)
	best, found := "", false
	for _, k := range known {
		if d := editDistance(name, k); d <= limit {
			best, found, limit = k, true, d-1
		}
	}
	return best, found
}

// editDistance counts the bytes to insert, remove or replace, or to swap with
// their neighbour, that make b of a.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
