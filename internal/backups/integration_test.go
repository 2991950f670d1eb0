package backups_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/backups"
	"github.com/brokerd/brokerd/internal/s3test"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/backup/s3store"
	"github.com/brokerd/brokerd/pkg/brokertest"
	"github.com/brokerd/brokerd/pkg/failure"
)

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clusterOf returns the client with which nodes are backed up.
func clusterOf(t *testing.T, nodes ...*brokertest.Node) *backups.Cluster {
	t.Helper()
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	c := must(api.NewClient(api.ClientOptions{Addresses: urls}))(t)
	return &backups.Cluster{Client: c, Timeout: 30 * time.Second, Now: time.Now}
}

func publish(t *testing.T, c *backups.Cluster, topic string, partition int, messages ...api.Message) *api.Published {
	t.Helper()
	return must(c.Client.Publish(t.Context(), topic, api.Publish{Messages: messages, Partition: &partition}))(t)
}

// numbered returns messages whose bodies are numbers.
func numbered(from, end int) (all []api.Message) {
	for i := from; i < end; i++ {
		all = append(all, api.Message{Text: fmt.Sprint(i), Key: fmt.Sprint("k", i%3)})
	}
	return all
}

// contents returns the messages of a topic, or those that a channel has not finished.
func contents(t *testing.T, c *backups.Cluster, topic, channel string) (all []string) {
	t.Helper()
	about := must(c.Client.Topic(t.Context(), topic))(t)
	for p := range about.Partitions {
		for from := uint64(0); ; {
			page := must(c.Client.Peek(t.Context(), topic, channel, api.PeekOptions{Partition: &p, From: &from, Max: 1000}))(t)
			if len(page) == 0 {
				break
			}
			for _, m := range page {
				body := m.Body
				if len(body) > 20 {
					body = fmt.Appendf(nil, "%d bytes", len(body))
				}
				late := ""
				if m.DeliverAt != nil {
					late = " at " + m.DeliverAt.Round(time.Minute).String()
				}
				all = append(all, fmt.Sprintf("%d %s %s %s%s", p, body, m.Key, m.Headers, late))
			}
			from = page[len(page)-1].Seq + 1
		}
	}
	return all
}

// verified returns what is wrong with a backup.
func verified(t *testing.T, r *backup.Repository, m *backup.Manifest) []error {
	t.Helper()
	wrong, err := r.Verify(t.Context(), m)
	return append(wrong, err)
}

// bucketOf returns a repository in a bucket.
func bucketOf(t *testing.T) *backup.Repository {
	t.Helper()
	service := s3test.Start(t, false)
	return backup.In(must(s3store.Open("s3://"+s3test.Bucket+"/x", s3store.Options{Getenv: func(name string) string {
		return map[string]string{"AWS_ACCESS_KEY_ID": s3test.AccessKey, "AWS_SECRET_ACCESS_KEY": s3test.SecretKey, "AWS_ENDPOINT_URL": service.URL}[name]
	}}))(t))
}

// fill creates topics of each kind.
func fill(ctx context.Context, t *testing.T, c *backups.Cluster) {
	t.Helper()
	two, yes, seven := 2, true, 7
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "orders", Config: api.ConfigPatch{Partitions: &two, Ext: &yes}}))(t)
	must(c.Client.CreateChannel(ctx, "orders", api.CreateChannel{Name: "a", Policy: &api.PolicyPatch{MaxAttempts: &seven}}))(t)
	must(c.Client.CreateChannel(ctx, "orders", api.CreateChannel{Name: "b", Order: "key", Filter: `key != "k9"`}))(t)
	must(c.Client.CreateChannel(ctx, "orders", api.CreateChannel{Name: "done"}))(t)
	done(t, c.Client.PauseChannel(ctx, "orders", "b", true))
	var ids []string
	for p := range 2 {
		ids = append(ids, publish(t, c, "orders", p, numbered(p*1000, p*1000+120)...).IDs...)
	}
	publish(t, c, "orders", 1, api.Message{Text: "head", Headers: []byte(`{"x":"y"}`)}, api.Message{Body: bytes.Repeat([]byte("h"), 1<<20)})
	done(t, c.Client.EmptyChannel(ctx, "orders", "done"))
	publish(t, c, "orders", 0, api.Message{Text: "late", DelayMS: time.Hour.Milliseconds()})
	for i, id := range ids {
		if i < 5 || i%3 == 0 { // in order, and out of it
			must(c.Client.History.FinishMessage(ctx, "orders", "a", id))(t)
		}
	}
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "empty"}))(t)
	must(c.Client.CreateChannel(ctx, "empty", api.CreateChannel{Name: "c"}))(t)
	publish(t, c, "nochannel", 0, numbered(0, 7)...)
	publish(t, c, "deleted", 0, numbered(0, 7)...)
	done(t, c.Client.DeleteTopic(ctx, "deleted"))
}

// TestEveryMessageAndPositionIsRestored backs up a cluster of three nodes, one of which is killed
// meanwhile, and compares the restored cluster message by message and channel by channel.
func TestEveryMessageAndPositionIsRestored(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	nodes := brokertest.Cluster(t, 3)
	from := clusterOf(t, nodes...)
	fill(ctx, t, from)
	nodes[0].Kill() // partitions get other leaders
	bucket := bucketOf(t)
	done(t, errors.Join(verified(t, bucket, must(from.Make(ctx, bucket, backups.Create{Tool: "test"}))(t).Manifest)...))
	made := must(from.Make(ctx, d, backups.Create{Tool: "test"}))(t)
	names := func(m *backup.Manifest) (all []string) {
		for _, x := range m.Topics {
			all = append(all, x.Name)
		}
		return all
	}
	if got := names(made.Manifest); !slices.Equal(got, []string{"empty", "nochannel", "orders"}) {
		t.Fatalf("topics: %v", got)
	}
	m := must(d.Load(t.Context(), ""))(t)
	done(t, errors.Join(verified(t, d, m)...))

	to := clusterOf(t, brokertest.Start(t))
	for i := range m.Topics {
		dry := must(to.Restore(ctx, d, &m.Topics[i], m.Topics[i].Name, 1, true))(t)
		got := must(to.Restore(ctx, d, &m.Topics[i], m.Topics[i].Name, 1, false))(t)
		if dry.DryRun = false; dry != got {
			t.Errorf("dry run %+v, restored %+v", dry, got)
		}
	}
	for _, x := range [][2]string{{"orders", ""}, {"orders", "a"}, {"orders", "b"}, {"orders", "done"}, {"empty", ""}, {"empty", "c"}, {"nochannel", ""}} {
		was, is := contents(t, from, x[0], x[1]), contents(t, to, x[0], x[1])
		if !slices.Equal(was, is) {
			t.Errorf("%v: was\n%s\nis\n%s", x, strings.Join(was, "\n"), strings.Join(is, "\n"))
		}
	}
	a, b := must(to.Client.Channel(ctx, "orders", "a"))(t), must(to.Client.Channel(ctx, "orders", "b"))(t)
	if a.Policy.MaxAttempts != 7 || a.Paused || !b.Paused || b.Order != "key" || b.Filter != `key != "k9"` {
		t.Errorf("settings of channels: %+v\n%+v", a, b)
	}
	about := must(to.Client.Topic(ctx, "orders"))(t)
	if about.Paused || !about.Config.Ext || len(about.Channels) != 3 {
		t.Errorf("topic: %+v", about)
	}
	first := must(to.Client.CreateChannel(ctx, "nochannel", api.CreateChannel{Name: "first"}))(t)
	if first.Depth != 7 {
		t.Errorf("the first channel gets %d of 7 messages", first.Depth)
	}
	if _, err := to.Restore(ctx, d, m.Topic("orders"), "orders", 1, false); !errors.Is(err, backups.ErrTopicThere) {
		t.Errorf("over a topic that is there: %v", err)
	}
	m = must(bucket.Load(ctx, ""))(t)
	must(to.Restore(ctx, bucket, m.Topic("orders"), "beside", 1, false))(t)
	if was, is := contents(t, to, "orders", "a"), contents(t, to, "beside", "a"); !slices.Equal(was, is) {
		t.Errorf("beside: %d and %d pending messages", len(was), len(is))
	}
}

// TestSecondBackupCopiesOnlyNewData counts what is read, and checks that chunks are not reused for
// a recreated topic.
func TestSecondBackupCopiesOnlyNewData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, d := t.Context(), backup.In(backup.Dir(dir))
	c := clusterOf(t, brokertest.Start(t))
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: "c"}))(t)
	for i := 0; i < backup.ChunkMessages+500; i += 500 {
		publish(t, c, "t", 0, numbered(i, i+500)...)
	}
	take := func(want int) *backup.Manifest {
		t.Helper()
		made := must(c.Make(ctx, d, backups.Create{Patterns: []string{"t*"}}))(t)
		if made.Copied != want {
			t.Errorf("copied %d messages, want %d", made.Copied, want)
		}
		done(t, errors.Join(verified(t, d, made.Manifest)...))
		return made.Manifest
	}
	take(backup.ChunkMessages + 500)
	publish(t, c, "t", 0, numbered(0, 3)...)
	m := take(503)
	if n, _ := m.Totals(); n != backup.ChunkMessages+503 {
		t.Errorf("the second holds %d messages", n)
	}
	done(t, os.Remove(filepath.Join(dir, "chunks", m.Topics[0].Partitions[0].Chunks[0].SHA256+".gz"))) // it was damaged
	if wrong := errors.Join(verified(t, d, m)...); wrong == nil {
		t.Error("the missing chunk is not found")
	}
	take(backup.ChunkMessages + 503)
	done(t, errors.Join(verified(t, d, m)...)) // the earlier backup is intact again
	to := clusterOf(t, brokertest.Start(t))
	must(to.Restore(ctx, d, m.Topic("t"), "t", 0, false))(t)
	if was, is := contents(t, c, "t", "c"), contents(t, to, "t", "c"); !slices.Equal(was, is) {
		t.Errorf("%d messages, restored %d", len(was), len(is))
	}
	done(t, c.Client.DeleteTopic(ctx, "t"))
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	publish(t, c, "t", 0, numbered(0, 3)...)
	take(3)
	if _, err := c.Make(ctx, d, backups.Create{Patterns: []string{"other"}}); err == nil {
		t.Error("a pattern that fits no topic makes a backup")
	}
}

// TestInterruptedRestoreIsReported also repeats the restore after the topic was purged.
func TestInterruptedRestoreIsReported(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	c := clusterOf(t, brokertest.Start(t))
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	publish(t, c, "t", 0, numbered(0, 5)...)
	m := must(c.Make(ctx, d, backups.Create{}))(t).Manifest
	broken := *m.Topic("t")
	chunk := broken.Partitions[0].Chunks[0]
	chunk.SHA256 = strings.Repeat("0", 64)
	broken.Partitions = slices.Clone(broken.Partitions)
	broken.Partitions[0].Chunks = []backup.Chunk{chunk}
	if _, err := c.Restore(ctx, d, &broken, "u", 0, false); err == nil {
		t.Fatal("restored without its messages")
	}
	if _, err := c.Client.Topic(ctx, "u"); api.CodeOf(err) != failure.NotFound {
		t.Errorf("a damaged backup was restored in part: %v", err)
	}
	killed, kill := context.WithCancel(ctx)
	defer kill()
	half := *c
	half.Now = func() time.Time { kill(); return time.Now() } // with the first message
	if _, err := half.Restore(killed, d, m.Topic("t"), "u", 0, false); err == nil {
		t.Fatal("restored by a command that was killed")
	}
	if about := must(c.Client.Topic(ctx, "u"))(t); !about.Paused {
		t.Error("half a topic delivers")
	}
	if _, err := c.Restore(ctx, d, m.Topic("t"), "u", 0, false); !errors.Is(err, backups.ErrBrokenOff) {
		t.Errorf("again: %v", err)
	}
	done(t, c.Client.DeleteTopic(ctx, "u"))
	if r := must(c.Restore(ctx, d, m.Topic("t"), "u", 0, false))(t); r.Messages != 5 {
		t.Errorf("%+v", r)
	}
}

// TestLargeHeadersAreRestored restores more bytes of headers than one request may have, and
// characters that JSON escapes for HTML, which would make the header too long.
func TestLargeHeadersAreRestored(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	c := clusterOf(t, brokertest.Start(t))
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t", Config: api.ConfigPatch{Ext: new(true)}}))(t)
	must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: "c"}))(t)
	header := fmt.Appendf(nil, `{"x":"%s"}`, strings.Repeat("<&> ", 15_000))
	for i := range 200 {
		publish(t, c, "t", 0, api.Message{Text: fmt.Sprint(i), Headers: header})
	}
	made := must(c.Make(ctx, d, backups.Create{}))(t)
	if got := must(c.Restore(ctx, d, made.Manifest.Topic("t"), "u", 0, false))(t); got.Messages != 200 {
		t.Errorf("restored %+v", got)
	}
	if was, is := contents(t, c, "t", "c"), contents(t, c, "u", "c"); !slices.Equal(was, is) {
		t.Errorf("%d messages, restored %d", len(was), len(is))
	}
}

// TestBinaryKeysAreRestored: as text they are other bytes, and more.
func TestBinaryKeysAreRestored(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	c := clusterOf(t, brokertest.Start(t))
	key := bytes.Repeat([]byte{0xff, 'a'}, 127)
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	publish(t, c, "t", 0, api.Message{Text: "x", KeyBase64: key, DedupBase64: key[:64]}, api.Message{Text: "y", Key: "text"})
	made := must(c.Make(ctx, d, backups.Create{}))(t)
	must(c.Restore(ctx, d, made.Manifest.Topic("t"), "u", 0, false))(t)
	for _, topic := range []string{"t", "u"} {
		got := must(c.Client.Peek(ctx, topic, "", api.PeekOptions{Max: 10}))(t)
		if len(got) != 2 || !bytes.Equal(got[0].KeyBase64, key) || got[1].Key != "text" || got[1].KeyBase64 != nil || bytes.Equal(got[0].DedupBase64, key[:64]) != (topic == "t") {
			t.Errorf("%s: %+v", topic, got)
		}
	}
}

// TestOrderedTopicIsRestored restores a channel that was saved without an order, as by earlier
// builds.
func TestOrderedTopicIsRestored(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	c := clusterOf(t, brokertest.Start(t))
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t", Config: api.ConfigPatch{Ordered: new(true)}}))(t)
	must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: "c"}))(t)
	saved := *must(c.Make(ctx, d, backups.Create{}))(t).Manifest.Topic("t")
	saved.Channels = slices.Clone(saved.Channels)
	was := string(saved.Channels[0].Settings)
	saved.Channels[0].Settings = []byte(strings.ReplaceAll(was, `"strict"`, `"none"`))
	if string(saved.Channels[0].Settings) == was {
		t.Fatalf("saved as %s", was)
	}
	must(c.Restore(ctx, d, &saved, "u", 0, false))(t)
	if got := must(c.Client.Channel(ctx, "u", "c"))(t); got.Order != "strict" {
		t.Errorf("restored with the order %s", got.Order)
	}
}

// TestBackupIsTakenUnderLoad deletes a topic when the progress output reports that the previous
// topic is copied, and publishes to another topic meanwhile.
func TestBackupIsTakenUnderLoad(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	c := clusterOf(t, brokertest.Start(t))
	for _, name := range []string{"a", "b", "load"} {
		must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: name}))(t)
		must(c.Client.CreateChannel(ctx, name, api.CreateChannel{Name: "c"}))(t)
		publish(t, c, name, 0, numbered(0, 100)...)
	}
	ended, stop := make(chan int), make(chan struct{})
	go func() {
		n := 100
		for ; ; n++ {
			select {
			case <-stop:
				ended <- n
				return
			default:
			}
			if _, err := c.Client.Publish(ctx, "load", api.Publish{Messages: numbered(n, n+1), Partition: new(0)}); err != nil {
				t.Error(err)
			}
		}
	}()
	made := must(c.Make(ctx, d, backups.Create{Progress: func(topic string, _ int) {
		if topic == "a" {
			done(t, c.Client.DeleteTopic(ctx, "b"))
		}
	}}))(t)
	close(stop)
	published := <-ended
	if !slices.Equal(made.Gone, []string{"b"}) || made.Manifest.Topic("b") != nil {
		t.Errorf("gone: %v", made.Gone)
	}
	must(c.Restore(ctx, d, made.Manifest.Topic("load"), "again", 0, false))(t)
	all, pending := contents(t, c, "again", ""), contents(t, c, "again", "c")
	if len(all) < 100 || len(all) > published || !slices.Equal(all, pending) {
		t.Errorf("%d messages published, %d restored, %d pending", published, len(all), len(pending))
	}
	for i, m := range all {
		if want := fmt.Sprintf("0 %d k%d {}", i, i%3); m != want {
			t.Fatalf("message %d is %q, want %q", i, m, want)
		}
	}
}

// A message that the cluster would refuse ends a restore, and its dry run, before anything is changed.
func TestMessagesThatTheClusterWouldRefuseAreNotRestored(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	c := clusterOf(t, brokertest.Start(t))
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	publish(t, c, "t", 0, api.Message{Body: []byte("small")}, api.Message{Body: make([]byte, 100)})
	m := must(c.Make(ctx, d, backups.Create{}))(t).Manifest
	to := clusterOf(t, brokertest.Start(t, brokertest.Set("max-msg-size", "50")))
	for _, dry := range []bool{true, false} {
		_, err := to.Restore(ctx, d, m.Topic("t"), "u", 0, dry)
		if api.CodeOf(err) != failure.TooLarge || !strings.Contains(err.Error(), "message 0/1 has 100 bytes, the limit of the cluster is 50") {
			t.Errorf("dry run %t: %v", dry, err)
		}
	}
	if _, err := to.Client.Topic(ctx, "u"); api.CodeOf(err) != failure.NotFound {
		t.Errorf("the topic was created: %v", err)
	}
}

// TestChannelsThatTheClusterWouldRefuseAreNotRestored: under a long name, the dead-letter topic of a channel has no name.
func TestChannelsThatTheClusterWouldRefuseAreNotRestored(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	c := clusterOf(t, brokertest.Start(t))
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	three, letters, long := 3, api.OnExhaustedDeadLetter, strings.Repeat("x", 60)
	must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: "bill", Policy: &api.PolicyPatch{MaxAttempts: &three, OnExhausted: &letters}}))(t)
	m := must(c.Make(ctx, d, backups.Create{}))(t).Manifest
	for _, dry := range []bool{true, false} {
		if _, err := c.Restore(ctx, d, m.Topic("t"), long, 0, dry); api.CodeOf(err) != failure.Invalid || !strings.Contains(err.Error(), "dead-letter topic of channel bill") {
			t.Errorf("dry run %t: %v", dry, err)
		}
		if _, err := c.Client.Topic(ctx, long); api.CodeOf(err) != failure.NotFound {
			t.Errorf("dry run %t: the topic was created: %v", dry, err)
		}
	}
}
