package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

// scene is a fault, and the alerts that report it.
type scene struct {
	name  string
	fires []string
	// act causes the fault and returns; whyNot says that it cannot be caused on this machine.
	act func(ctx context.Context, st *stage) (whyNot string, err error)
	// goOn repeats the trouble until the alerts have fired; nil: the trouble persists without it.
	goOn func(ctx context.Context, st *stage) error
	// cure ends the trouble.
	cure func(ctx context.Context, st *stage) error
}

// play causes the trouble, waits until its alerts fire, and ends it.
func (s *scene) play(ctx context.Context, st *stage) (whyNot string, err error) {
	st.note("%s", s.name)
	began := time.Now()
	if s.act != nil {
		if whyNot, err := s.act(ctx, st); err != nil || whyNot != "" {
			return whyNot, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, fireTimeout)
	defer cancel()
	err = nodes.Await(limited, func() error {
		var trouble error
		if s.goOn != nil {
			trouble = s.goOn(limited, st)
		}
		fired, err := st.fired(began)
		if missing := but(slices.Clone(s.fires), fired...); len(missing) > 0 {
			err = errors.Join(err, trouble, fmt.Errorf("%s did not fire; %q did", strings.Join(missing, ", "), fired))
		}
		return err
	})
	if s.cure != nil {
		err = errors.Join(err, s.cure(ctx, st))
	}
	return "", err
}

// scenes are all, in the order of the acts.
func scenes() []scene { return slices.Concat(acts()...) }

// acts are the scenes in the order in which they are played. Those of one act are played at the same time: none of
// them starts, stops or pauses a node, or keeps another from firing.
func acts() [][]scene {
	return [][]scene{
		{{name: "all is well", act: quiet}},
		{
			{name: "nobody consumes", fires: []string{"BrokerdChannelStalled", "BrokerdChannelOld"}, act: nobodyConsumes},
			{name: "a poison message", fires: []string{"BrokerdDeadLetters"}, act: poison, goOn: publishPoison},
			{name: "a topic is full", fires: []string{"BrokerdTopicFills", "BrokerdPublishesFail"}, act: smallTopic, goOn: publishTooMuch},
			{name: "an intruder", fires: []string{"BrokerdLoginsFail"}, goOn: intrude},
			{name: "a certificate", fires: []string{"BrokerdCertificateEnds", "BrokerdCertificateNotReloaded"}, act: breakCertificate, cure: healCertificate},
			{name: "a drain is forgotten", fires: []string{"BrokerdDrainForgotten"}, act: drain, cure: undrain},
			{name: "a disk fills", fires: []string{"BrokerdDiskFills", "BrokerdDiskFull"}, act: fillDisk, cure: freeDisk},
		},
		{{name: "the controller moves", fires: []string{"BrokerdControllerFlaps"}, goOn: moveController, cure: calm}},
		{{name: "a follower comes and goes", fires: []string{"BrokerdISRFlaps", "BrokerdReplicaBehind"}, goOn: pauseFollower, cure: calm}},
		{{
			name: "a node dies", act: killOne, cure: reviveAll,
			fires: []string{
				"BrokerdDown", "BrokerdNodeDown", "BrokerdNoToleranceLeft", "BrokerdPartitionsUnderReplicated",
				"BrokerdPartitionsOffline", "BrokerdPartitionsUnderMinISR",
			},
		}},
		{{name: "leaders change", fires: []string{"BrokerdLeadersChange"}, goOn: killLeaders, cure: reviveAll}},
		{{name: "a replica behind leads", fires: []string{"BrokerdUncleanElection"}, act: electUnclean, cure: reviveAll}},
		{{name: "two nodes die", fires: []string{"BrokerdNoController", "BrokerdNotReady"}, act: killTwo, cure: reviveAll}},
		{{name: "a log is damaged", fires: []string{"BrokerdLogCorrupt"}, act: damage}},
		{{name: "two versions", fires: []string{"BrokerdVersionsDiffer"}, act: otherVersion}},
		{{name: "all is well again", act: quietAgain}},
	}
}

// whileWell fire although nothing is done: the certificate ends within the hour.
var whileWell = []string{"BrokerdCertificateEnds"}

// slowMachine fire where other programs keep the disk or the processors busy.
var slowMachine = []string{"BrokerdSyncSlow", "BrokerdRunsLate"}

// quiet watches a cluster that is well until no alert fires for longer than the windows of the rules. On a busy machine
// one may fire at first.
func quiet(ctx context.Context, st *stage) (string, error) {
	limited, cancel := context.WithTimeout(ctx, fireTimeout)
	defer cancel()
	var last []string
	for began := time.Now(); time.Since(began) < quietFor; {
		firing, err := st.firing(limited)
		if err != nil {
			return "", err
		}
		if firing = but(but(firing, whileWell...), slowMachine...); len(firing) > 0 {
			began, last = time.Now(), firing
		}
		if err := pause(limited, time.Second); err != nil {
			return "", fmt.Errorf("%w: %q fire", err, last)
		}
	}
	return "", nil
}

// quietAgain waits until the alerts about nodes and partitions are silent. Those about what remains are not.
func quietAgain(ctx context.Context, st *stage) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fireTimeout)
	defer cancel()
	return "", nodes.Await(ctx, func() error {
		firing, err := st.firing(ctx)
		firing = but(but(firing, slowMachine...), append(whileWell, "BrokerdChannelStalled", "BrokerdChannelOld", "BrokerdTopicFills", "BrokerdVersionsDiffer", "BrokerdLogCorrupt")...)
		if err == nil && len(firing) > 0 {
			err = fmt.Errorf("%q fire", firing)
		}
		return err
	})
}

func but(names []string, without ...string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(without, n) })
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func nobodyConsumes(ctx context.Context, st *stage) (string, error) {
	return "", errors.Join(
		st.ctl(ctx, "topic", "create", "idle", "--partitions", "3", "--replicas", "3"),
		st.ctl(ctx, "channel", "create", "idle/c"),
		st.ctl(ctx, "message", "pub", "idle", "one", "two", "three"))
}

func poison(ctx context.Context, st *stage) (string, error) {
	err := errors.Join(
		st.ctl(ctx, "topic", "create", "bitter", "--replicas", "3"),
		st.ctl(ctx, "channel", "create", "bitter/c", "--max-attempts", "2"))
	if err != nil {
		return "", err
	}
	x, err := st.client.Subscribe("bitter", "c")
	if err != nil {
		return "", err
	}
	go func() {
		for m := range x.Messages(ctx) {
			_ = m.Requeue(0) // until it has had its attempts
		}
	}()
	return "", nil
}

// publishPoison publishes until the alert fires: the first scrape of a counter is no increase.
func publishPoison(ctx context.Context, st *stage) error {
	return st.client.Publish(ctx, "bitter", []byte("poison"))
}

func smallTopic(ctx context.Context, st *stage) (string, error) {
	return "", st.ctl(ctx, "topic", "create", "small", "--replicas", "3", "--max-bytes", "1MiB", "--on-full", "reject")
}

// publishTooMuch publishes until the topic is full, and continues.
func publishTooMuch(ctx context.Context, st *stage) error {
	for range 3 {
		body := strings.NewReader(strings.Repeat("x", 100_000))
		resp, err := http.Post("http://"+st.c.Nodes[0].HTTP+"/pub?topic=small", "", body) //nolint:noctx // nodes answer
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// intrude shows wrong tokens.
func intrude(ctx context.Context, st *stage) error {
	for range 5 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+st.c.Nodes[0].HTTP+"/v1/access/users", nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer brk_0000000000000000_guess")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
	}
	return nil
}

func breakCertificate(_ context.Context, st *stage) (string, error) {
	if err := os.Rename(st.file("node.pem"), st.file("node.pem.good")); err != nil {
		return "", err
	}
	if err := os.WriteFile(st.file("node.pem"), []byte("no certificate\n"), 0o600); err != nil {
		return "", err
	}
	return "", st.reload()
}

func healCertificate(_ context.Context, st *stage) error {
	return errors.Join(os.Rename(st.file("node.pem.good"), st.file("node.pem")), st.reload())
}

func (st *stage) reload() (err error) {
	for _, n := range st.c.Nodes {
		err = errors.Join(err, n.Reload())
	}
	return err
}

func drain(ctx context.Context, st *stage) (string, error) {
	return "", st.ctl(ctx, "node", "drain", "n2")
}

func undrain(ctx context.Context, st *stage) error { return st.ctl(ctx, "node", "undrain", "n2") }

func moveController(ctx context.Context, st *stage) error {
	return st.ctl(ctx, "cluster", "raft", "--transfer")
}

// calm waits until all replicas are in sync.
func calm(ctx context.Context, st *stage) error { return st.whole(ctx) }

// pauseFollower stops n3 for longer than it may be silent, and lets it catch up.
func pauseFollower(ctx context.Context, st *stage) error {
	n := st.c.Node("n3")
	if err := n.Pause(); err != nil {
		return err
	}
	st.note("pause n3")
	err := pause(ctx, 4*time.Second)
	if err := errors.Join(err, n.Resume()); err != nil {
		return err
	}
	return st.whole(ctx)
}

// killOne kills n3, which alone has the partitions of a topic, and is needed by another.
func killOne(ctx context.Context, st *stage) (string, error) {
	err := errors.Join(
		st.ctl(ctx, "topic", "create", "alone", "--partitions", "6", "--replicas", "1"),
		st.ctl(ctx, "topic", "create", "strict", "--partitions", "3", "--replicas", "3", "--min-isr", "3"))
	if err != nil {
		return "", err
	}
	return "", st.kill("n3")
}

func (st *stage) kill(id string) error {
	st.note("kill -9 %s", id)
	return st.c.Node(id).End(syscall.SIGKILL)
}

// reviveAll starts what does not run.
func reviveAll(ctx context.Context, st *stage) (err error) {
	for _, n := range st.c.Nodes {
		if n.Running() {
			continue
		}
		if err := n.Start(); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, n := range st.c.Nodes {
		if err := n.Ready(limited); err != nil {
			return err
		}
	}
	return st.whole(ctx)
}

// killLeaders kills the node that leads the most partitions of the load, and starts it again.
func killLeaders(ctx context.Context, st *stage) error {
	if err := st.ctl(ctx, "cluster", "balance", "--leaders"); err != nil {
		return err
	}
	t, err := st.c.Topic(ctx, "work")
	if err != nil {
		return err
	}
	if err := st.kill(t.Partitions[0].Leader); err != nil {
		return err
	}
	return errors.Join(pause(ctx, 3*time.Second), reviveAll(ctx, st))
}

// electUnclean makes a replica lead that was not in sync when the leader died.
func electUnclean(ctx context.Context, st *stage) (string, error) {
	err := st.ctl(ctx, "topic", "create", "pair", "--replicas", "2", "--min-isr", "1")
	if err != nil {
		return "", err
	}
	t, err := st.c.Topic(ctx, "pair")
	if err != nil {
		return "", err
	}
	leader := t.Partitions[0].Leader
	other := but(slices.Clone(t.Partitions[0].Replicas), leader)[0]
	n := st.c.Node(other)
	if err := n.Pause(); err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = nodes.Await(limited, func() error {
		_ = st.client.Publish(limited, "pair", []byte("unseen")) // it makes the leader notice; reading the topic shows whether it has
		t, err := st.c.Topic(limited, "pair")
		if err == nil && len(t.Partitions[0].ISR) > 1 {
			err = fmt.Errorf("%s is still in sync", other)
		}
		return err
	})
	err = errors.Join(err, st.kill(leader), n.Resume())
	if err != nil {
		return "", err
	}
	return "", nodes.Await(limited, func() error {
		return st.ctl(limited, "partition", "elect", "pair/0", "--unclean", "--to", other, "--yes")
	})
}

func killTwo(_ context.Context, st *stage) (string, error) {
	return "", errors.Join(st.kill("n2"), st.kill("n3"))
}

// damage changes a byte in a log of which there is one replica.
func damage(ctx context.Context, st *stage) (string, error) {
	const topic = "scratched"
	err := errors.Join(
		st.ctl(ctx, "topic", "create", topic, "--replicas", "1"),
		st.ctl(ctx, "message", "pub", topic, strings.Repeat("a message ", 50)))
	if err != nil {
		return "", err
	}
	t, err := st.c.Topic(ctx, topic)
	if err != nil {
		return "", err
	}
	n := st.c.Node(t.Partitions[0].Leader)
	if err := n.Stop(); err != nil {
		return "", err
	}
	logs, err := filepath.Glob(filepath.Join(n.Data(), "topics", topic+".*", "*", "*.log"))
	if err != nil {
		return "", err
	}
	changed := 0
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if i := strings.Index(string(text), "a message a message"); i >= 0 {
			text[i+3] ^= 0xff
			changed++
			if err := os.WriteFile(name, text, 0o600); err != nil {
				return "", err
			}
		}
	}
	if changed == 0 {
		return "", fmt.Errorf("none of %d logs of topic %s on %s has a message: %q", len(logs), topic, n.ID, logs)
	}
	if err := st.again(ctx, n); err != nil {
		return "", err
	}
	x, err := st.client.Subscribe(topic, "c") // a reader finds the damage sooner than the scrubber
	if err != nil {
		return "", err
	}
	go func() {
		for m := range x.Messages(st.loadContext) {
			_ = m.Finish()
		}
	}()
	return "", nil
}

func otherVersion(ctx context.Context, st *stage) (string, error) {
	if st.o.other == "" {
		return "no program of another version was given", nil
	}
	other, err := filepath.Abs(st.o.other)
	if err != nil {
		return "", err
	}
	n := st.c.Node("n3")
	if err := n.Stop(); err != nil {
		return "", err
	}
	n.Install(other)
	return "", st.again(ctx, n)
}

// fillDisk writes a file beside the data of n1, in steps, so that the trend is visible.
func fillDisk(ctx context.Context, st *stage) (string, error) {
	if !st.mounted {
		return "only root can mount a small disk", nil
	}
	f, err := os.Create(filepath.Join(st.c.Node("n1").Data(), "filler"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	part := make([]byte, smallDisk/16)
	for {
		if _, err := f.Write(part); errors.Is(err, syscall.ENOSPC) {
			return "", nil
		} else if err != nil {
			return "", err
		}
		if err := pause(ctx, time.Second); err != nil {
			return "", err
		}
	}
}

func freeDisk(ctx context.Context, st *stage) error {
	if err := os.Remove(filepath.Join(st.c.Node("n1").Data(), "filler")); err != nil {
		return err
	}
	return st.whole(ctx)
}
