package node

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// process is the node's process as operators see it. It implements operate.Process.
type process struct {
	options  config.Options // at the start
	sources  map[string]string
	reloaded atomic.Pointer[config.Options] // since; nil: not
	level    *logLevel
}

func newProcess(c *Config) *process {
	return &process{options: c.Options, sources: c.Sources, level: &logLevel{level: c.Level, log: c.Log, configured: c.Options.Process.LogLevel}}
}

// reload takes over the options after a reload of the configuration.
func (p *process) reload(o config.Options) {
	p.reloaded.Store(&o)
	p.level.reload(o.Process.LogLevel)
}

// Settings implements operate.Process.
func (p *process) Settings() api.NodeSettings {
	out := api.NodeSettings{LogLevel: p.level.current()}
	options := p.options
	now := cmp.Or(p.reloaded.Load(), &options).Settings()
	for i, was := range options.Settings() {
		s := api.Setting{Name: was.Key, Value: withoutPasswords(now[i].Value()), Source: cmp.Or(p.sources[was.Key], "default")}
		if now[i].Value() != was.Value() {
			s.Source = "reloaded configuration"
		}
		out.Settings = append(out.Settings, s)
	}
	return out
}

// SetLogLevel implements operate.Process.
func (p *process) SetLogLevel(level string, lasts time.Duration) api.LogLevel {
	return p.level.set(level, lasts)
}

// logLevel is the log level of the process, which an operator may change for a time.
type logLevel struct {
	level *slog.LevelVar
	log   *slog.Logger

	mu         sync.Mutex // guards the fields below
	configured string
	until      time.Time // when the configured level applies again; zero: never
	back       *time.Timer
	changes    uint64 // how often it was changed
}

func (l *logLevel) current() api.LogLevel {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := api.LogLevel{Level: strings.ToLower(l.level.Level().String()), Configured: l.configured}
	if !l.until.IsZero() {
		out.Until = new(l.until.UTC())
	}
	return out
}

// set changes the level, for a time or (0) for good.
func (l *logLevel) set(name string, lasts time.Duration) api.LogLevel {
	l.mu.Lock()
	l.end()
	if lasts > 0 {
		l.until = time.Now().Add(lasts)
		mine := l.changes
		l.back = time.AfterFunc(lasts, func() { l.restore(mine) })
	}
	l.change(name, "an operator changed it", lasts)
	l.mu.Unlock()
	return l.current()
}

// restore sets the configured level, unless the level was changed again.
func (l *logLevel) restore(change uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == change {
		l.end()
		l.change(l.configured, "its time is over", 0)
	}
}

// reload takes over the configured level, which applies already.
func (l *logLevel) reload(configured string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
	l.configured = configured
}

// close ends the timer.
func (l *logLevel) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// end forgets when the configured level applies again. l.mu is held.
func (l *logLevel) end() {
	l.changes++
	if l.back != nil {
		l.back.Stop()
	}
	l.back, l.until = nil, time.Time{}
}

// change sets the level and logs that, whichever of both levels is higher. l.mu is held.
func (l *logLevel) change(name, why string, lasts time.Duration) {
	var next slog.Level
	if err := next.UnmarshalText([]byte(name)); err != nil {
		return // the configuration has no such level
	}
	said := max(slog.LevelInfo, l.level.Level(), next)
	if lasts > 0 {
		why += ", for " + lasts.String()
	}
	l.log.Log(context.Background(), said, "log level changed", "level_before", strings.ToLower(l.level.Level().String()), "level_now", name, "reason", why)
	l.level.Set(next)
}
