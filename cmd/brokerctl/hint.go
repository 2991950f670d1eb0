package main

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// hintTimeout limits the time for finding a similar name.
const hintTimeout = 2 * time.Second

// didYouMean is the hint that suggests another name.
func didYouMean(name string) string { return fmt.Sprintf("did you mean %q?", name) }

// nameWhatIsMissing adds whether the topic or the channel is missing, and a similar name. It
// returns the error unchanged if the broker cannot tell.
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
