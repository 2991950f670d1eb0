package server

import (
	"context"
	"errors"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
)

const maxPartition = seq.MaxPartitions - 1

// maxFreed is how many messages may be answered before the reader wakes the writer, while more
// commands can be read.
const maxFreed = 64

// execute runs one command. An *nsq.Error refuses it; any other error ends the
// connection.
func (s *session) execute(ctx context.Context, cmd *nsq.Command) error {
	if s.srv.opts.TLSRequired && s.tls == nil && cmd.Verb != nsq.Identify {
		return nsq.Errorf(failure.BadCommand, "cannot %s in current state (TLS required)", cmd.Name())
	}
	switch cmd.Verb {
	case nsq.Fin, nsq.Req, nsq.Touch:
		return s.respond(cmd)
	case nsq.Rdy:
		return s.rdy(cmd)
	case nsq.Pub:
		return s.publisher.pub(ctx, cmd)
	case nsq.MPub:
		return s.publisher.mpub(ctx, cmd)
	case nsq.DPub:
		return s.publisher.dpub(ctx, cmd)
	case nsq.Nop:
		return nil
	case nsq.Sub, nsq.SubAdvanced, nsq.SubOrdered:
		return s.subscribe(ctx, cmd)
	case nsq.Cls:
		return s.cls(ctx, cmd)
	case nsq.Identify:
		return s.identify(ctx, cmd)
	case nsq.Auth:
		return s.auth(ctx, cmd)
	case nsq.CreateTopic:
		return creating{s}.topic(ctx, cmd)
	case nsq.PubTrace, nsq.MPubTrace, nsq.PubExt, nsq.MPubExt:
		return extension{s.publisher}.publish(ctx, cmd)
	default:
		return nsq.Errorf(failure.BadCommand, "invalid command %s", cmd.Name())
	}
}

func wrongState(cmd *nsq.Command) error {
	return nsq.Errorf(failure.BadCommand, "cannot %s in current state", cmd.Verb)
}

// respond is FIN, REQ and TOUCH: it answers a message that is in flight.
func (s *session) respond(cmd *nsq.Command) error {
	if s.state != stateSubscribed && s.state != stateClosing {
		return wrongState(cmd)
	}
	params := 1
	if cmd.Verb == nsq.Req {
		params = 2
	}
	if cmd.Len() < params {
		return nsq.Errorf(failure.BadCommand, "%s insufficient number of params", cmd.Verb)
	}
	text, ok := cmd.ID()
	if !ok {
		return nsq.Errorf(failure.BadCommand, "invalid message ID")
	}
	var delay time.Duration
	if cmd.Verb == nsq.Req {
		var err error
		if delay, err = s.requeueDelay(cmd.Param(1)); err != nil {
			return err
		}
	}
	id, bad := s.form.ID(text)
	if s.form.Binary && int64(id) <= 0 { //nolint:gosec // its clients take it for a signed number
		return nsq.Errorf(failure.BadCommand, "Invalid Message ID")
	}
	err := errNotInFlight
	if bad == nil {
		if place, ok := s.ids.Place(id); ok {
			err = s.respondTo(cmd.Verb, place, delay)
		}
	}
	if err == nil {
		return nil
	}
	if code := failure.Extending(err); code != failure.NoWire && s.form.Binary && cmd.Verb == nsq.Fin {
		return &nsq.Error{Code: code, Ends: true} // the client looks up the leader
	}
	if s.form.Binary {
		return nsq.Errorf(answerCode(cmd.Verb), "%s %s failed %v", cmd.Verb, id, err)
	}
	return nsq.Errorf(answerCode(cmd.Verb), "%s %s failed %v", cmd.Verb, cmd.Param(0), err)
}

// answerCode returns the code for a FIN, REQ or TOUCH that failed.
func answerCode(verb nsq.Verb) failure.Wire {
	switch verb {
	case nsq.Req:
		return failure.ReqFailed
	case nsq.Touch:
		return failure.TouchFailed
	default:
		return failure.FinFailed
	}
}

func (s *session) respondTo(verb nsq.Verb, id seq.MessageID, delay time.Duration) error {
	if verb == nsq.Touch {
		return s.sub.Touch(id)
	}
	var err error
	if verb == nsq.Req {
		err = s.sub.Requeue(id, delay)
	} else {
		err = s.sub.Finish(id)
	}
	if err == nil {
		if s.freed++; s.freed >= maxFreed {
			s.freed = 0
			s.poke()
		}
	}
	return err
}

// requeueDelay reads the delay of a REQ in ms. It reduces a delay that is too long.
func (s *session) requeueDelay(text []byte) (time.Duration, error) {
	most := s.srv.opts.MaxDelay
	ms, err := nsq.ParseDecimal(text)
	switch {
	case errors.Is(err, nsq.ErrOverflow), err == nil && ms > most.Milliseconds():
		return most, nil
	case err != nil:
		return 0, nsq.Errorf(failure.BadCommand, "REQ could not parse timeout %s", text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// rdy is RDY [<count>]. The count is a level, not a credit.
func (s *session) rdy(cmd *nsq.Command) error {
	switch s.state {
	case stateClosing:
		return nil
	case stateSubscribed:
	default:
		return wrongState(cmd)
	}
	count := int64(1)
	if cmd.Len() > 0 {
		var err error
		if count, err = nsq.ParseDecimal(cmd.Param(0)); err != nil {
			return nsq.Errorf(failure.BadCommand, "RDY could not parse count %s", cmd.Param(0))
		}
	}
	if most := s.srv.opts.MaxReady; count > int64(most) {
		return nsq.Errorf(failure.BadCommand, "RDY count %d out of range 0-%d", count, most)
	}
	s.sub.SetReady(int(count))
	s.poke()
	return nil
}

// cls handles CLS: the client wants no more messages.
func (s *session) cls(ctx context.Context, cmd *nsq.Command) error {
	if s.state != stateSubscribed {
		return wrongState(cmd)
	}
	s.sub.StopDelivery()
	s.setState(stateClosing)
	// The writer continues to call Take: it returns what the consumer was woken for to other
	// consumers.
	return s.answerFrame(ctx, []byte(nsq.CloseWait), nil)
}

func (s *session) setState(state int) {
	s.state = state
	s.describe(func(*stats.Client) {})
}

// maxIntroduction limits the body of IDENTIFY and AUTH, which any client may send, in bytes.
const maxIntroduction = 64 << 10

func (s *Server) maxIntroduction() int { return min(maxIntroduction, s.opts.MaxBodyBytes) }

// identify is IDENTIFY: it negotiates how the connection behaves from now on.
func (s *session) identify(ctx context.Context, cmd *nsq.Command) error {
	if s.state != stateInit {
		return wrongState(cmd)
	}
	body, err := readCommandBody(s.conn, s.reader, "IDENTIFY", s.allowed(nsq.Identify))
	if err != nil {
		return err
	}
	if err := s.spend(len(body), nsq.Identify); err != nil {
		return err
	}
	id, err := nsq.ParseIdentity(body)
	if err != nil {
		return err
	}
	limits := s.srv.limits
	limits.Upgraded = s.upgraded
	limits.AuthRequired = limits.AuthRequired || s.srv.opts.Guard.Directory().On()
	settings, err := limits.Negotiate(&id)
	if err != nil {
		return err
	}
	if settings.Tag != "" && !header.ValidTag(settings.Tag) {
		return nsq.Errorf(failure.BadBody, "IDENTIFY desired tag (%.40s) is invalid", settings.Tag)
	}
	if s.filter, err = header.ParseFilter(id.ExtFilter); err != nil {
		return nsq.Errorf(failure.BadBody, "IDENTIFY ext_filter: %v", err)
	}
	s.settings = settings
	s.conn.setIdleTimeout(2*settings.Heartbeat, time.Now())
	s.describe(func(about *stats.Client) { introduce(about, &id) })
	apply := func() { s.writer.apply(&settings) }
	if !id.FeatureNegotiation {
		return s.answerFrame(ctx, []byte(nsq.OK), apply)
	}
	if err := s.payUpgrade(&settings); err != nil {
		return err
	}
	answer, err := limits.AppendIdentified(nil, &settings)
	if err != nil {
		return nsq.Errorf(failure.IdentifyFailed, "IDENTIFY failed %v", err)
	}
	if !settings.TLS && !settings.Snappy && !settings.Deflate {
		return s.answerFrame(ctx, answer, apply)
	}
	return s.upgrade(ctx, answer, apply)
}

// introduce stores a client's description of itself. Fields that the client omitted keep their
// values.
func introduce(about *stats.Client, id *nsq.Identity) {
	note := func(field *string, said ...string) {
		for _, text := range said {
			if text != "" {
				*field = text
				return
			}
		}
	}
	note(&about.ClientID, id.ClientID, id.ShortID)
	note(&about.Hostname, id.Hostname, id.LongID)
	note(&about.UserAgent, id.UserAgent)
	note(&about.TopologyRegion, id.TopologyRegion)
	note(&about.TopologyZone, id.TopologyZone)
}

var errHandshake = errors.New("TLS handshake failed")
