package server

import (
	"bytes"
	"context"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/units"
)

// subscribe is SUB <topic> <channel> [<partition>], SUB_ADVANCED, which may also have a start
// position after these, and SUB_ORDERED.
func (s *session) subscribe(ctx context.Context, cmd *nsq.Command) error {
	switch {
	case s.state != stateInit:
		return wrongState(cmd)
	case s.settings.Heartbeat <= 0:
		return nsq.Errorf(failure.BadCommand, "cannot SUB with heartbeats disabled")
	case cmd.Len() < 2:
		return nsq.Errorf(failure.BadCommand, "%s insufficient number of parameters", cmd.Verb)
	}
	name, channel := string(cmd.Param(0)), string(cmd.Param(1))
	if !meta.ValidTopicName(name) {
		return nsq.Errorf(failure.BadTopic, "SUB topic name %q is not valid", name)
	}
	if !meta.ValidChannelName(channel) {
		return nsq.Errorf(failure.BadChannel, "SUB channel name %q is not valid", channel)
	}
	ask := consume.Subscribe{
		Topic: name, Channel: channel, Partition: partitionParam(cmd.Param(2)), Ordered: cmd.Verb == nsq.SubOrdered, Client: s.link,
		MsgTimeout: s.settings.MsgTimeout, SampleRate: s.settings.SampleRate, Wake: s.poke, Serve: s.direct.serve,
	}
	want := access.Demand{Right: access.Subscribe, Topic: name, Channel: channel}
	s.rights.listen(cmd.Verb, want)
	defer func() {
		if s.sub == nil {
			s.link.listening.Store(nil) // there is no subscription
		}
	}()
	if err := s.rights.permit(ctx, cmd.Verb, want); err != nil {
		return err
	}
	form, err := joining{s}.extend(cmd, &ask)
	if err != nil {
		return err
	}
	sub, err := s.srv.broker.Subscribe(ctx, ask)
	if err != nil {
		return subscribeError(name, channel, err, audienceOf(form.Details || s.settings.Knows, ask.Partition != host.AnyPartition))
	}
	s.sub, s.ids, s.form = sub, sub.Numbering(), form
	if s.conn.retiring.Load() != nil {
		sub.StopDelivery() // the connection ends before the messages could be answered
	}
	s.publisher.subscribed = true
	s.reader.SetRawIDs(form.Binary)
	s.srv.counters.openConsumers.Add(1)
	s.setState(stateSubscribed)
	return s.answerFrame(ctx, []byte(nsq.OK), func() { s.writer.sub = sub })
}

// joining executes the parts of a subscription that belong to the extensions.
type joining struct{ s *session }

// extend reads the parameters of the extensions from a subscription, and returns the form of its
// messages. Commands of the extensions create no topics.
func (j joining) extend(cmd *nsq.Command, ask *consume.Subscribe) (nsq.Form, error) {
	s := j.s
	command := cmd.Verb != nsq.Sub
	if !command && !s.settings.Extended {
		placed := ask.Partition != host.AnyPartition
		if _, err := s.srv.broker.Topic(ask.Topic); placed && err != nil {
			return nsq.Form{}, &nsq.Error{Code: failure.TopicNotExist} // the topic that had the partition
		}
		j.choose(ask)
		return nsq.Form{Binary: placed || s.settings.Knows}, nil
	}
	if command {
		var err error
		if ask.Partition, err = partitionNamed(cmd.Param(2)); err != nil {
			return nsq.Form{}, err
		}
	}
	if ask.Ordered && s.settings.SampleRate > 0 {
		return nsq.Form{}, nsq.Errorf(failure.BadCommand, "order consume is not allowed while sample rate is not 0")
	}
	if cmd.Verb == nsq.SubAdvanced {
		var err error
		if ask.Start, err = startParam(cmd.Param(3)); err != nil {
			return nsq.Form{}, err
		}
	}
	about, err := s.srv.namedTopic(ask.Topic, ask.Partition)
	switch {
	case err != nil:
		return nsq.Form{}, err
	case about.Config.Ext && !s.settings.Extended:
		return nsq.Form{}, nsq.Errorf(failure.SubExtendNeeded, "this topic is extended and should identify as extend support.")
	case !about.Config.Ext && s.settings.Extended:
		return nsq.Form{}, nsq.Errorf(failure.SubExtendForbidden, "this topic is not extended and should not identify as extend support.")
	}
	if about.Config.Ext {
		ask.Tag, ask.Filter = s.settings.Tag, s.filter
	}
	return nsq.Form{Binary: true, Ext: about.Config.Ext, Details: command}, nil
}

// choose selects the messages for a consumer that gets no headers. On a topic without headers it
// gets all.
func (j joining) choose(ask *consume.Subscribe) {
	s := j.s
	if s.settings.Tag == "" && s.filter == nil {
		return
	}
	if about, err := s.srv.broker.Topic(ask.Topic); err == nil && about.Config.Ext {
		ask.Tag, ask.Filter = s.settings.Tag, s.filter
	}
}

// startParam reads where a subscription begins.
func startParam(text []byte) (topic.Start, error) {
	if len(text) == 0 {
		return topic.Start{}, nil
	}
	kind, value, _ := bytes.Cut(text, []byte{':'})
	start := topic.Start{}
	switch string(kind) {
	case "timestamp":
		start.Kind = topic.StartAtTime
	case "virtual_queue":
		start.Kind = topic.StartAtPosition
	case "msgcount":
		start.Kind = topic.StartAtMessage
	case "special":
		if string(value) != "-1" {
			return start, nsq.Errorf(failure.BadCommand, "not supported offset type")
		}
		return topic.Start{Kind: topic.StartAtEnd}, nil
	}
	var err error
	if start.Value, err = nsq.ParseDecimal(value); err != nil || start.Kind == topic.StartAnywhere {
		return start, nsq.Errorf(failure.BadCommand, "invalid consume offset: %s", text)
	}
	if start.Kind == topic.StartAtTime {
		if _, err := units.FromSeconds(start.Value); err != nil {
			return start, nsq.Errorf(failure.BadCommand, "invalid consume offset: %s %v", text, err)
		}
	}
	return start, nil
}
