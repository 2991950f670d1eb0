package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/node"
	"github.com/brokerd/brokerd/internal/nsqdfiles"
	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// importMarker is the file in a data directory that names the nsqd files it was imported from.
	importMarker = "nsqd-import.json"
	// importingSuffix is the suffix of the data directory during the import. An interrupted import
	// leaves it, and the next start replaces it.
	importingSuffix = ".importing"
	// importBatch limits the bytes of messages stored together.
	importBatch = 4 << 20
	// importBatchCount limits their number.
	importBatchCount = 4096
)

// nsqdImport imports the files in nsqd's data path into a data directory that does not exist yet.
// Everything is stored in a temporary directory, which is then renamed: after a kill at any
// moment, the next start finds all data or imports from the beginning. nsqd's files are read and
// not changed.
type nsqdImport struct {
	path    string // nsqd's data path
	options config.Options
	log     *slog.Logger
	level   *slog.LevelVar
}

// importStamp is the content of importMarker.
type importStamp struct {
	At       time.Time                  `json:"at"`
	Topics   int                        `json:"topics"`
	Messages int                        `json:"messages"`
	Files    map[string]nsqdfiles.Stamp `json:"files"` // at the time of the import
}

// importNsqd imports nsqd's files once, before the node is started. After a signal, nothing was
// imported.
func (p *program) importNsqd(ctx context.Context, loaded *config.Loaded, log *slog.Logger, level *slog.LevelVar) error {
	i := &nsqdImport{filepath.Dir(loaded.Options.DataDir), loaded.Options, log, level}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-p.signals:
				if s != syscall.SIGHUP {
					cancel(errStopped)
				}
			}
		}
	})
	watching.Go(func() { keepAsking(ctx, "importing nsqd data from "+i.path) })
	err := i.run(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errStopped) {
		log.Warn("import interrupted: nothing was imported; the next start repeats it")
		return silent{exitOK}
	}
	return err
}

// run imports, unless there is nothing to import or the import was done before.
func (i *nsqdImport) run(ctx context.Context) error {
	present, err := nsqdfiles.Present(i.path)
	if err != nil {
		return exitWith(exitDisk, err)
	}
	if !present {
		return nil
	}
	lock, err := lockNsqd(i.path)
	if err != nil {
		return err
	}
	defer lock.Close()
	stamp, err := readStamp(i.options.DataDir)
	if err != nil {
		return err
	}
	if stamp != nil {
		return i.unchanged(stamp)
	}
	d, err := nsqdfiles.Read(i.path)
	if err != nil {
		return exitWith(exitDisk, fmt.Errorf("import from nsqd: nothing was imported: %w", err))
	}
	if err := checkNames(d); err != nil {
		return exitWith(exitDisk, fmt.Errorf("import from nsqd: nothing was imported: %w", err))
	}
	used, err := hasData(i.options.DataDir)
	switch {
	case err != nil:
		return exitWith(exitDisk, err)
	case used && d.Messages() == 0:
		i.log.Warn("nsqd topics not imported: data directory already holds data", "dir", i.options.DataDir)
		return nil
	case used:
		return exitWith(exitConfig, fmt.Errorf("%d nsqd messages in %s are not imported because %s already holds data: move the nsqd files away if they are not needed, or move the data directory away to import into a new one",
			d.Messages(), i.path, i.options.DataDir))
	case len(i.options.Cluster.Join) > 0 || i.options.Cluster.BootstrapExpect > 1:
		return exitWith(exitConfig, fmt.Errorf("import from nsqd requires a new single-node cluster: start once without --join and --bootstrap-expect, then add nodes, or move the nsqd files out of %s", i.path))
	}
	return i.all(ctx, d)
}

// all imports everything, or nothing.
func (i *nsqdImport) all(ctx context.Context, d *nsqdfiles.Dir) error {
	began, temp := time.Now(), i.options.DataDir+importingSuffix
	i.log.Info("importing nsqd data", "from", i.path, "topics", len(d.Topics), "messages", d.Messages())
	for _, note := range d.Notes {
		i.log.Warn("nsqd file skipped or incomplete", "detail", note)
	}
	if err := os.RemoveAll(temp); err != nil {
		return exitWith(exitDisk, err)
	}
	err := i.into(ctx, temp, d)
	if err == nil {
		err = i.complete(temp, d)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("import from nsqd: nothing was imported, nsqd's files are unchanged: %w", err), os.RemoveAll(temp))
	}
	i.log.Info("nsqd data imported; its files were kept and may be deleted", "topics", len(d.Topics), "messages", d.Messages(), "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// into stores everything in a new data directory.
func (i *nsqdImport) into(ctx context.Context, dir string, d *nsqdfiles.Dir) error {
	o := i.options
	o.DataDir, o.Listen, o.LookupdTCPAddresses = dir, config.Listen{}, nil
	if err := vfs.MkdirAllSynced(vfs.OS{}, dir); err != nil {
		return err
	}
	ls := &node.Listeners{}
	opened, err := node.Open(ctx, node.Config{
		Disk:    topicFiles(openFiles(), i.log),
		Options: o, Advertise: node.Advertised(o.Advertise, ls, o.Advertise.Host), Listeners: ls, Log: i.log, Level: i.level,
		Version: nsqVersion, Lookupds: &node.Lookupds{},
	})
	if err != nil {
		return err
	}
	to := importer{opened.Broker(), i.log}
	for k := range d.Topics {
		if err = to.topic(ctx, &d.Topics[k]); err != nil {
			err = fmt.Errorf("topic %q: %w", d.Topics[k].Name, err)
			break
		}
	}
	return errors.Join(err, opened.Close())
}

// complete marks the stored data as complete and renames the directory.
func (i *nsqdImport) complete(temp string, d *nsqdfiles.Dir) error {
	content, err := json.MarshalIndent(importStamp{time.Now(), len(d.Topics), d.Messages(), d.Files}, "", "  ")
	if err != nil {
		return err
	}
	if err := vfs.WriteFileSynced(vfs.OS{}, filepath.Join(temp, importMarker), append(content, '\n')); err != nil {
		return err
	}
	if err := removeLocks(i.options.DataDir); err != nil {
		return err
	}
	if err := os.Rename(temp, i.options.DataDir); err != nil {
		return err
	}
	return vfs.OS{}.SyncDir(i.path)
}

// unchanged refuses files that nsqd has written since the import, because their messages would not
// be delivered.
func (i *nsqdImport) unchanged(stamp *importStamp) error {
	now, err := nsqdfiles.Stamps(i.path)
	if err != nil {
		return exitWith(exitDisk, err)
	}
	var changed []string
	for name, s := range now {
		if was, known := stamp.Files[name]; !known || was != s {
			changed = append(changed, name)
		}
	}
	if len(changed) == 0 {
		i.log.Info("nsqd files were already imported", "at", stamp.At, "messages", stamp.Messages)
		return nil
	}
	slices.Sort(changed)
	return exitWith(exitConfig, fmt.Errorf("nsqd has written to %s since its files were imported at %s (%s): move its files away if their messages are not needed; to import them as well, move %s away, which holds everything received since",
		i.path, stamp.At.Format(time.RFC3339), strings.Join(changed[:min(3, len(changed))], ", "), i.options.DataDir))
}

// importer stores nsqd's data in a broker that nothing else uses.
type importer struct {
	b   *broker.Broker
	log *slog.Logger
}

// topic stores a topic. Messages that waited in only one channel are finished in the others.
// Messages that had not reached any channel follow, after the pause if the topic is paused.
func (m importer) topic(ctx context.Context, t *nsqdfiles.Topic) error {
	if _, err := m.b.Directory.CreateTopic(ctx, t.Name, meta.TopicConfig{}); err != nil {
		return err
	}
	for _, c := range t.Channels {
		if err := m.b.Directory.CreateChannel(ctx, t.Name, c.Name, false); err != nil {
			return fmt.Errorf("channel %q: %w", c.Name, err)
		}
	}
	for k := range t.Channels {
		if err := m.channel(ctx, t, &t.Channels[k]); err != nil {
			return fmt.Errorf("channel %q: %w", t.Channels[k].Name, err)
		}
	}
	if t.Paused {
		if err := m.b.Directory.PauseTopic(ctx, t.Name, true); err != nil {
			return err
		}
	}
	if _, _, err := m.queue(ctx, t.Name, &t.Queue); err != nil {
		return err
	}
	m.log.Info("nsqd topic imported", "topic", t.Name, "messages", t.Queue.Messages, "channels", len(t.Channels), "paused", t.Paused)
	return nil
}

func (m importer) channel(ctx context.Context, t *nsqdfiles.Topic, c *nsqdfiles.Channel) error {
	from, end, err := m.queue(ctx, t.Name, &c.Queue)
	if err != nil {
		return err
	}
	for _, other := range t.Channels {
		if other.Name != c.Name && from < end {
			if err := m.b.Contents.SkipMessages(t.Name, other.Name, 0, from, end); err != nil {
				return err
			}
		}
	}
	if c.Paused {
		if err := m.b.Contents.PauseChannel(ctx, t.Name, c.Name, true); err != nil {
			return err
		}
	}
	m.log.Info("nsqd channel imported", "topic", t.Name, "channel", c.Name, "messages", c.Queue.Messages, "paused", c.Paused)
	return nil
}

// queue publishes the messages of a queue to the topic's first partition and returns their
// offsets.
func (m importer) queue(ctx context.Context, name string, q *nsqdfiles.Queue) (from, end seq.Offset, err error) {
	var batch []topic.Message
	size, first := 0, true
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		r, err := m.publish(ctx, name, batch)
		if err != nil {
			return err
		}
		if first {
			from, first = r.First, false
		}
		end = r.First + seq.Offset(r.Count)
		batch, size = batch[:0], 0
		return nil
	}
	err = q.Each(func(n nsqdfiles.Message) error {
		if len(batch) > 0 && (size+len(n.Body) > importBatch || len(batch) == importBatchCount) {
			if err := flush(); err != nil {
				return err
			}
		}
		batch = append(batch, topic.Message{Body: slices.Clone(n.Body)})
		size += len(n.Body)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return from, end, err
}

func (m importer) publish(ctx context.Context, name string, messages []topic.Message) (topic.Receipt, error) {
	done := make(chan topic.Receipt, 1)
	m.b.Router.Publish(ctx, publish.Request{Topic: name, Partition: 0, Messages: messages, Done: func(r topic.Receipt) { done <- r }})
	select {
	case r := <-done:
		return r, r.Err
	case <-ctx.Done():
		return topic.Receipt{}, context.Cause(ctx)
	}
}

// checkNames refuses names that are invalid in brokerd.
func checkNames(d *nsqdfiles.Dir) error {
	for _, t := range d.Topics {
		if !meta.ValidTopicName(t.Name) {
			return fmt.Errorf("topic %q: name not allowed in brokerd: rename it in nsqd, or remove it from %s", t.Name, nsqdfiles.MetadataFile)
		}
		for _, c := range t.Channels {
			if !meta.ValidChannelName(c.Name) {
				return fmt.Errorf("channel %q of topic %q: name not allowed in brokerd: remove it from %s", c.Name, t.Name, nsqdfiles.MetadataFile)
			}
		}
	}
	return nil
}

// lockNsqd acquires nsqd's lock on its data path, so that no nsqd runs there meanwhile.
func lockNsqd(path string) (io.Closer, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's data path
	if err != nil {
		return nil, exitWith(exitDisk, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, exitWith(exitTemporary, fmt.Errorf("data path %s is in use, probably by an nsqd: stop it first", path))
		}
		return nil, exitWith(exitDisk, fmt.Errorf("lock %s: %w", path, err))
	}
	return f, nil
}

// readStamp returns the stamp of the imported files; nil if the data directory was not imported.
func readStamp(dir string) (*importStamp, error) {
	content, err := os.ReadFile(filepath.Join(dir, importMarker)) //nolint:gosec // the node's own directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a missing file is not an error
	}
	if err != nil {
		return nil, exitWith(exitDisk, err)
	}
	stamp := &importStamp{}
	if err := json.Unmarshal(content, stamp); err != nil {
		return nil, exitWith(exitDisk, fmt.Errorf("%s is corrupt, cannot tell what was imported from nsqd: %w", filepath.Join(dir, importMarker), err))
	}
	return stamp, nil
}

// hasData reports whether a data directory contains more than its lock.
func hasData(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != lockFile && e.Name() != holderFile }), err
}

// removeLocks empties a directory that contains at most a lock, so that another one can be renamed
// to it.
func removeLocks(dir string) error {
	for _, name := range []string{lockFile, holderFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// refuseNsqdsFiles prevents brokerd, under its own name, from using nsqd's data path, because it
// would ignore nsqd's messages.
func refuseNsqdsFiles(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, nsqdfiles.MetadataFile)); err != nil {
		return nil //nolint:nilerr // no nsqd files found
	}
	return exitWith(exitConfig, fmt.Errorf("data directory %s is the data path of an nsqd: import it with \"brokerd nsqd --data-path %s\", or move %s away if it is not needed", dir, dir, nsqdfiles.MetadataFile))
}
