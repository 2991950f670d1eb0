package server

import (
	"context"
	"errors"
	"strconv"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// creating executes the command that creates topics explicitly.
type creating struct{ s *session }

// topic is INTERNAL_CREATE_TOPIC <topic> <partition> [<ext>].
func (c creating) topic(ctx context.Context, cmd *nsq.Command) error {
	s := c.s
	if cmd.Len() < 2 {
		return nsq.Errorf(failure.BadCommand, "CREATE_TOPIC insufficient number of parameters")
	}
	name := string(cmd.Param(0))
	if !meta.ValidTopicName(name) {
		return nsq.Errorf(failure.BadTopic, "topic name %q is not valid", name)
	}
	partition, err := strconv.Atoi(string(cmd.Param(1)))
	switch {
	case err != nil || partition > maxPartition:
		return nsq.Errorf(failure.BadPartition, "topic partition is not valid: %s", cmd.Param(1))
	case partition < 0:
		return nsq.Errorf(failure.BadPartition, "partition should not less than 0")
	}
	ext := false
	if cmd.Len() > 2 {
		if ext, err = strconv.ParseBool(string(cmd.Param(2))); err != nil {
			return nsq.Errorf(failure.BadExt, "topic ext is not valid: %s", cmd.Param(2))
		}
	}
	if err := s.rights.permit(ctx, cmd.Verb, access.Demand{Right: access.Manage, Topic: name}); err != nil {
		return err
	}
	err = ErrClustered
	if s.srv.opts.CreateTopic != nil {
		err = s.srv.opts.CreateTopic(ctx, name, partition+1, ext)
	}
	return c.answer(ctx, err)
}

// answer answers a client that requested a topic.
func (c creating) answer(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return c.s.answerFrame(ctx, []byte(nsq.OK), nil)
	case errors.Is(err, ErrClustered):
		return nsq.Errorf(failure.TopicNotCreated, "CREATE_TOPIC is not allowed here while cluster feature enabled.")
	}
	return nsq.Errorf(failure.TopicNotCreated, "CREATE_TOPIC failed %v", err)
}
