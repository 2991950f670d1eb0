package nsqd

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/units"
)

// maxOffsetBody is the maximum size of the body of /channel/setoffset, in bytes.
const maxOffsetBody = 256

// setOffset moves a channel to the place that the body names, as SUB_ADVANCED does, in total
// partitions or in one.
func (s *nodeTopics) setOffset(r *http.Request) (any, error) {
	name, channel, err := nsqform.ChannelParams(r)
	if err != nil {
		return nil, err
	}
	t, err := s.Topic(name)
	if err != nil {
		return nil, err
	}
	p, err := nsqform.ReadParams(r)
	if err != nil {
		return nil, err
	}
	partition, err := p.PartitionOf(t)
	if err != nil {
		return nil, err
	}
	b, err := s.bodies.Read(r, maxOffsetBody)
	if err != nil {
		return nil, bodyError(err, "BODY_TOO_BIG")
	}
	defer b.Release()
	to, err := parseOffset(string(b.Bytes()))
	if err != nil {
		return nil, err
	}
	if partition != host.AnyPartition {
		to.Partition = &partition
	}
	return nil, s.broker.SeekChannel(r.Context(), name, channel, to)
}

// parseOffset reads a place.
func parseOffset(text string) (operate.SeekTo, error) {
	kind, value, _ := strings.Cut(strings.TrimSpace(text), ":")
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case kind == "special" && value == "-1":
		return operate.SeekTo{End: true}, nil
	case err != nil || n < 0:
	case kind == "timestamp":
		at, err := units.FromSeconds(n)
		if err != nil {
			return operate.SeekTo{}, nsqform.Refuse(fmt.Sprintf("invalid consume offset: timestamp:%d %s", n, err))
		}
		return operate.SeekTo{Time: at}, nil
	case kind == "msgcount":
		o := seq.Offset(max(n-1, 0)) //nolint:gosec // not negative
		return operate.SeekTo{Offset: &o}, nil
	}
	return operate.SeekTo{}, nsqform.Refuse("invalid consume offset: " + strings.ToValidUTF8(text, "?"))
}
