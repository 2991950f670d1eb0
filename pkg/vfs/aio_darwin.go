package vfs

import (
	"errors"
	"os"
)

// The kernel takes no requests: all syncs block.
const (
	aioSync     = 0
	aioDataSync = 0
)

type syncRequest struct{}

func newSyncRequest() (*syncRequest, error) { return nil, errors.ErrUnsupported }

func (*syncRequest) submit(*os.File, uint16) (taken bool, err error) { return false, nil }
func (*syncRequest) await() error                                    { return nil }
func (*syncRequest) outcome() error                                  { return nil }
