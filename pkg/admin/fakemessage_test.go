package admin

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/seq"
)

func (f *fake) FinishMessage(_ context.Context, topic, channel string, partition int, offset seq.Offset) (broker.PeekState, error) {
	if offset > 100 {
		return "", broker.ErrMessageNotFound
	}
	return broker.PeekInFlight, f.onChannel(fmt.Sprintf("finish %d/%d of", partition, offset), topic, channel)
}
