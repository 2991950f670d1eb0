package broker

import (
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// benchPublish publishes batches of 100 small messages, 64 of them at a time.
func benchPublish(b *testing.B, n *meshNode) {
	messages := make([]topic.Message, 100)
	for i := range messages {
		messages[i].Body = make([]byte, 128)
	}
	window := make(chan struct{}, 64)
	var all sync.WaitGroup
	p := publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: messages, Done: func(r topic.Receipt) {
		if r.Err != nil {
			b.Error(r.Err)
		}
		<-window
		all.Done()
	}}
	b.SetBytes(128 * 100)
	b.ReportAllocs()
	for b.Loop() {
		window <- struct{}{}
		all.Add(1)
		n.Router.Publish(b.Context(), p)
	}
	all.Wait()
}

func BenchmarkPublishHere(b *testing.B) {
	m := newMesh(b, "n1", "n2")
	m.create("t", "n1")
	benchPublish(b, m.nodes["n1"])
}

func BenchmarkPublishThere(b *testing.B) {
	m := newMesh(b, "n1", "n2")
	m.create("t", "n2")
	benchPublish(b, m.nodes["n1"])
}

// benchConsume consumes and finishes the published messages.
func benchConsume(b *testing.B, leader meta.NodeID) {
	m := newMesh(b, "n1", "n2")
	m.create("t", leader)
	messages := make([]topic.Message, 100)
	for i := range messages {
		messages[i].Body = make([]byte, 128)
	}
	published := 0
	for ; published < b.N; published += len(messages) {
		if r := m.nodes[leader].publish(publish.Request{Topic: "t", Messages: messages}); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	c := m.nodes["n1"].subscribe("t", "c")
	b.ReportAllocs()
	b.ResetTimer()
	for taken := 0; taken < b.N; {
		n, err := c.Take(time.Now(), 256, func(d *topic.Delivery) error { return c.Finish(d.ID) })
		if err != nil {
			b.Fatal(err)
		}
		if taken += n; n == 0 {
			<-c.woken
		}
	}
}

func BenchmarkConsumeHere(b *testing.B)  { benchConsume(b, "n1") }
func BenchmarkConsumeThere(b *testing.B) { benchConsume(b, "n2") }
