package main

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/internal/words"
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
	if best := words.Nearest(name, known); best != "" {
		answer.Hint = didYouMean(best)
	}
}
