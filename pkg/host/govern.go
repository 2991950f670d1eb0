package host

import (
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/topic"
)

// govern applies a channel's policy of the metadata, with the cluster's defaults.
func (h *Topic) govern(c *topic.Channel, t *meta.Topic, defaults policy.Policy) {
	p := meta.PolicyOf(t, c.Name(), defaults)
	topic.RetriesOf(c).SetPolicy(p, h.Rates.Of(c.Name(), p.Rate, time.Now()))
}

// AddEphemeral creates an ephemeral channel in a partition if it is missing.
func (h *Topic) AddEphemeral(lp *Led, channel string, order policy.Order, defaults policy.Policy) (*topic.Channel, error) {
	c, err := lp.Part.AddChannel(channel, 0, topic.ChannelOptions{Order: order, Ephemeral: true})
	if err == nil {
		h.govern(c, h.Config(), defaults)
	}
	return c, err
}
