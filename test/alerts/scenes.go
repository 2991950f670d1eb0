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
	"github.com/brokerd/brokerd/test/steps"
)

// scene is a fault, and the alerts that report it.
type scene struct {
	name  string
	fires []string
	// act causes the fault.
	act deed
	// goOn repeats the trouble until the alerts have fired; nil: the trouble persists without it.
	goOn deed
	// cure ends the trouble.
	cure deed
}

// deed is a list of steps. It ends with cannot if it cannot be done on this machine.
type deed func(ctx context.Context, st *stage)

// cannot is why something cannot be done on this machine.
type cannot string

func (c cannot) Error() string { return string(c) }

// play causes the trouble, waits until its alerts fire, and ends it.
func (s *scene) play(ctx context.Context, st *stage) error {
	st.note("%s", s.name)
	began := time.Now()
	do := func(ctx context.Context, d deed) error {
		if d == nil {
			return nil
		}
		return steps.Run(func() { d(ctx, st) })
	}
	if err := do(ctx, s.act); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, fireTimeout)
	defer cancel()
	err := nodes.Await(limited, func() error {
		trouble := do(limited, s.goOn)
		fired, err := st.fired(began)
		if missing := but(slices.Clone(s.fires), fired...); len(missing) > 0 {
			err = errors.Join(err, trouble, fmt.Errorf("%s did not fire; %q did", strings.Join(missing, ", "), fired))
		}
		return err
	})
	return errors.Join(err, do(ctx, s.cure))
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
			{name: "a topic is full", fires: []string{"BrokerdTopicFills", "BrokerdPublishesFail"}, act: ctl("topic", "create", "small", "--replicas", "3", "--max-bytes", "1MiB", "--on-full", "reject"), goOn: publishTooMuch},
			{name: "an intruder", fires: []string{"BrokerdLoginsFail"}, goOn: intrude},
			{name: "a certificate", fires: []string{"BrokerdCertificateEnds", "BrokerdCertificateNotReloaded"}, act: breakCertificate, cure: healCertificate},
			{name: "a drain is forgotten", fires: []string{"BrokerdDrainForgotten"}, act: ctl("node", "drain", "n2"), cure: ctl("node", "undrain", "n2")},
			{name: "a disk fills", fires: []string{"BrokerdDiskFills", "BrokerdDiskFull"}, act: fillDisk, cure: freeDisk},
		},
		{{name: "the controller moves", fires: []string{"BrokerdControllerFlaps"}, goOn: ctl("cluster", "raft", "--transfer"), cure: calm}},
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
func quiet(ctx context.Context, st *stage) {
	limited, cancel := context.WithTimeout(ctx, fireTimeout)
	defer cancel()
	var last []string
	for began := time.Now(); time.Since(began) < quietFor; {
		firing := but(but(steps.Need(st.firing(limited)), whileWell...), slowMachine...)
		if len(firing) > 0 {
			began, last = time.Now(), firing
		}
		if err := pause(limited, time.Second); err != nil {
			steps.Fail("%w: %q fire", err, last)
		}
	}
}

// quietAgain waits until the alerts about nodes and partitions are silent. Those about what remains are not.
func quietAgain(ctx context.Context, st *stage) {
	ctx, cancel := context.WithTimeout(ctx, fireTimeout)
	defer cancel()
	steps.Must(nodes.Await(ctx, func() error {
		firing, err := st.firing(ctx)
		firing = but(but(firing, slowMachine...), append(whileWell, "BrokerdChannelStalled", "BrokerdChannelOld", "BrokerdTopicFills", "BrokerdVersionsDiffer", "BrokerdLogCorrupt")...)
		if err == nil && len(firing) > 0 {
			err = fmt.Errorf("%q fire", firing)
		}
		return err
	}))
}

// ctl is a command of brokerctl.
func ctl(args ...string) deed {
	return func(ctx context.Context, st *stage) { st.ctl(ctx, args...) }
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

func nobodyConsumes(ctx context.Context, st *stage) {
	st.ctl(ctx, "topic", "create", "idle", "--partitions", "3", "--replicas", "3")
	st.ctl(ctx, "channel", "create", "idle/c")
	st.ctl(ctx, "message", "pub", "idle", "one", "two", "three")
}

func poison(ctx context.Context, st *stage) {
	st.ctl(ctx, "topic", "create", "bitter", "--replicas", "3")
	st.ctl(ctx, "channel", "create", "bitter/c", "--max-attempts", "2")
	x := steps.Need(st.client.Subscribe("bitter", "c"))
	go func() {
		for m := range x.Messages(ctx) {
			_ = m.Requeue(0) // until it has had its attempts
		}
	}()
}

// publishPoison publishes until the alert fires: the first scrape of a counter is no increase.
func publishPoison(ctx context.Context, st *stage) {
	steps.Must(st.client.Publish(ctx, "bitter", []byte("poison")))
}

// publishTooMuch publishes until the topic is full, and continues.
func publishTooMuch(ctx context.Context, st *stage) {
	for range 3 {
		body := strings.NewReader(strings.Repeat("x", 100_000))
		resp, err := http.Post("http://"+st.c.Nodes[0].HTTP+"/pub?topic=small", "", body) //nolint:noctx // nodes answer
		steps.Must(err)
		steps.Must(resp.Body.Close())
	}
	steps.Must(ctx.Err())
}

// intrude shows wrong tokens.
func intrude(ctx context.Context, st *stage) {
	for range 5 {
		req := steps.Need(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+st.c.Nodes[0].HTTP+"/v1/access/users", nil))
		req.Header.Set("Authorization", "Bearer brk_0000000000000000_guess")
		resp, err := http.DefaultClient.Do(req)
		steps.Must(err)
		steps.Must(resp.Body.Close())
	}
}

func breakCertificate(_ context.Context, st *stage) {
	steps.Must(os.Rename(st.file("node.pem"), st.file("node.pem.good")))
	steps.Must(os.WriteFile(st.file("node.pem"), []byte("no certificate\n"), 0o600))
	steps.Must(st.reload())
}

func healCertificate(_ context.Context, st *stage) {
	steps.Must(errors.Join(os.Rename(st.file("node.pem.good"), st.file("node.pem")), st.reload()))
}

func (st *stage) reload() (err error) {
	for _, n := range st.c.Nodes {
		err = errors.Join(err, n.Reload())
	}
	return err
}

// calm waits until all replicas are in sync.
func calm(ctx context.Context, st *stage) { steps.Must(st.whole(ctx)) }

// pauseFollower stops n3 for longer than it may be silent, and lets it catch up.
func pauseFollower(ctx context.Context, st *stage) {
	n := st.c.Node("n3")
	steps.Must(n.Pause())
	st.note("pause n3")
	steps.Must(errors.Join(pause(ctx, 4*time.Second), n.Resume()))
	steps.Must(st.whole(ctx))
}

// killOne kills n3, which alone has the partitions of a topic, and is needed by another.
func killOne(ctx context.Context, st *stage) {
	st.ctl(ctx, "topic", "create", "alone", "--partitions", "6", "--replicas", "1")
	st.ctl(ctx, "topic", "create", "strict", "--partitions", "3", "--replicas", "3", "--min-isr", "3")
	steps.Must(st.kill("n3"))
}

func (st *stage) kill(id string) error {
	st.note("kill -9 %s", id)
	return st.c.Node(id).End(syscall.SIGKILL)
}

// reviveAll starts what does not run.
func reviveAll(ctx context.Context, st *stage) {
	st.again(ctx, slices.DeleteFunc(slices.Clone(st.c.Nodes), (*nodes.Node).Running)...)
}

// killLeaders kills the node that leads the most partitions of the load, and starts it again.
func killLeaders(ctx context.Context, st *stage) {
	st.ctl(ctx, "cluster", "balance", "--leaders")
	t := steps.Need(st.c.Topic(ctx, "work"))
	steps.Must(st.kill(t.Partitions[0].Leader))
	err := pause(ctx, 3*time.Second)
	reviveAll(ctx, st)
	steps.Must(err)
}

// electUnclean makes a replica lead that was not in sync when the leader died.
func electUnclean(ctx context.Context, st *stage) {
	st.ctl(ctx, "topic", "create", "pair", "--replicas", "2", "--min-isr", "1")
	p := steps.Need(st.c.Topic(ctx, "pair")).Partitions[0]
	other := but(slices.Clone(p.Replicas), p.Leader)[0]
	n := st.c.Node(other)
	steps.Must(n.Pause())
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := nodes.Await(limited, func() error {
		_ = st.client.Publish(limited, "pair", []byte("unseen")) // it makes the leader notice; reading the topic shows whether it has
		t, err := st.c.Topic(limited, "pair")
		if err == nil && len(t.Partitions[0].ISR) > 1 {
			err = fmt.Errorf("%s is still in sync", other)
		}
		return err
	})
	steps.Must(errors.Join(err, st.kill(p.Leader), n.Resume()))
	steps.Must(nodes.Await(limited, func() error {
		_, err := st.asked(limited, "partition", "elect", "pair/0", "--unclean", "--to", other, "--yes")
		return err
	}))
}

func killTwo(_ context.Context, st *stage) { steps.Must(errors.Join(st.kill("n2"), st.kill("n3"))) }

// damage changes a byte in a log of which there is one replica.
func damage(ctx context.Context, st *stage) {
	const topic = "scratched"
	st.ctl(ctx, "topic", "create", topic, "--replicas", "1")
	st.ctl(ctx, "message", "pub", topic, strings.Repeat("a message ", 50))
	n := st.c.Node(steps.Need(st.c.Topic(ctx, topic)).Partitions[0].Leader)
	steps.Must(n.Stop())
	logs := steps.Need(filepath.Glob(filepath.Join(n.Data(), "topics", topic+".*", "*", "*.log")))
	changed := 0
	for _, name := range logs {
		text := steps.Need(os.ReadFile(name))
		if i := strings.Index(string(text), "a message a message"); i >= 0 {
			text[i+3] ^= 0xff
			changed++
			steps.Must(os.WriteFile(name, text, 0o600))
		}
	}
	if changed == 0 {
		steps.Fail("none of %d logs of topic %s on %s has a message: %q", len(logs), topic, n.ID, logs)
	}
	st.again(ctx, n)
	x := steps.Need(st.client.Subscribe(topic, "c")) // a reader finds the damage sooner than the scrubber
	go func() {
		for m := range x.Messages(st.loadContext) {
			_ = m.Finish()
		}
	}()
}

func otherVersion(ctx context.Context, st *stage) {
	if st.o.other == "" {
		steps.Must(cannot("no program of another version was given"))
	}
	n := st.c.Node("n3")
	other := steps.Need(filepath.Abs(st.o.other))
	steps.Must(n.Stop())
	n.Install(other)
	st.again(ctx, n)
}

// fillDisk writes a file beside the data of n1, in steps, so that the trend is visible.
func fillDisk(ctx context.Context, st *stage) {
	if !st.mounted {
		steps.Must(cannot("only root can mount a small disk"))
	}
	f := steps.Need(os.Create(filepath.Join(st.c.Node("n1").Data(), "filler")))
	defer f.Close()
	part := make([]byte, smallDisk/16)
	for {
		_, err := f.Write(part)
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		steps.Must(errors.Join(err, pause(ctx, time.Second)))
	}
}

func freeDisk(ctx context.Context, st *stage) {
	steps.Must(os.Remove(filepath.Join(st.c.Node("n1").Data(), "filler")))
	steps.Must(st.whole(ctx))
}
