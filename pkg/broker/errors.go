package broker

import (
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
)

// What the broker refuses. Each is marked fate.Refused: nothing was changed.
var (
	ErrTopicNotFound     = meta.ErrTopicNotFound
	ErrTopicExists       = meta.ErrExists
	ErrChannelNotFound   = meta.ErrChannelNotFound
	ErrPartitionNotFound = meta.ErrPartitionNotFound
	ErrInvalidConfig     = meta.ErrInvalidConfig
	ErrNoWindow          = host.ErrNoWindow
	ErrBusy              = host.ErrBusy
	ErrDiskFull          = host.ErrDiskFull
	ErrExiting           = host.ErrExiting
	ErrMessageTooBig     = host.ErrMessageTooBig
	ErrNoLeader          = host.ErrNoLeader
	ErrNoLoss            = host.ErrNoLoss
	ErrNoSetAside        = host.ErrNoSetAside
	ErrInvalidChannel    = directory.ErrInvalidChannel
	ErrInvalidTopic      = directory.ErrInvalidTopic
	ErrPartitionNeeded   = publish.ErrPartitionNeeded
	ErrTooManyConsumers  = consume.ErrTooManyConsumers
	ErrMessageNotFound   = operate.ErrMessageNotFound
	ErrNodeActive        = operate.ErrNodeActive
	ErrUnreachable       = operate.ErrUnreachable
	ErrNothingToUndo     = operate.ErrNothingToUndo
	ErrChannelThere      = operate.ErrChannelThere
)
