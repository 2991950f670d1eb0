package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// flood publishes n messages of 100 KB to an ephemeral topic without a consumer.
func flood(t *testing.T, b *Broker, n int) (refused int, why error) {
	t.Helper()
	body := []byte(strings.Repeat("x", 100<<10))
	for range n {
		done := make(chan topic.Receipt, 1)
		b.Router.Publish(context.Background(), publish.Request{
			Topic: "waste#ephemeral", Partition: host.AnyPartition, Messages: []topic.Message{{Body: body}}, Done: func(r topic.Receipt) { done <- r },
		})
		if r := <-done; r.Err != nil {
			refused, why = refused+1, r.Err
		}
	}
	return refused, why
}

func TestEphemeralTopicIsBoundedAtPublish(t *testing.T) {
	const most = 2 << 20
	m := limit.NewMemory(64 << 20)
	n := newNodeWith(t, func(o *Options) { o.EphemeralBytes, o.RetentionInterval, o.Memory = most, time.Hour, m })
	for range 20 { // ten times its limit
		if _, err := flood(t, n.Broker, 10); err != nil && !errors.Is(err, failure.QueueFull) {
			t.Fatal(err)
		}
		stored := n.Host.Lookup("waste#ephemeral").Led(0).Part.Log().Bytes()
		if held := m.Usage().Uses[limit.Ephemeral]; stored > 2*most || held > 4*most+4<<20 {
			t.Fatalf("%d bytes are stored and %d held, %d may be", stored, held, most)
		}
	}
	eventually(t, func() bool {
		refused, _ := flood(t, n.Broker, 1)
		return refused == 0
	})
	if err := n.Directory.DeleteTopic(t.Context(), "waste#ephemeral"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return m.Usage().Used == 0 })
}

func TestEphemeralTopicsShareTheBudget(t *testing.T) {
	m := limit.NewMemory(16 << 20) // of which they have a quarter
	n := newNodeWith(t, func(o *Options) { o.RetentionInterval, o.Memory = time.Hour, m })
	if refused, err := flood(t, n.Broker, 100); refused == 0 || !errors.Is(err, failure.NoMemory) {
		t.Errorf("%d are refused, %v", refused, err)
	}
	if held := m.Usage().Uses[limit.Ephemeral]; held > 4<<20 {
		t.Errorf("%d bytes are held", held)
	}
}
