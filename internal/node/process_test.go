package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/config"
)

func TestLogLevelReturnsToTheConfiguredOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		level := new(slog.LevelVar)
		o := config.Default()
		p := newProcess(&Config{Options: o, Level: level, Log: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: level}))})
		is := func(what string, want slog.Level, ends time.Duration) {
			t.Helper()
			now := p.Settings().LogLevel
			if level.Level() != want || !strings.EqualFold(now.Level, want.String()) || (now.Until != nil) != (ends > 0) || ends > 0 && time.Until(*now.Until) != ends {
				t.Errorf("%s: level %v, reported as %+v, want %v, which ends after %v", what, level.Level(), now, want, ends)
			}
		}
		is("at first", slog.LevelInfo, 0)
		p.SetLogLevel("debug", 10*time.Minute)
		is("changed", slog.LevelDebug, 10*time.Minute)
		time.Sleep(10*time.Minute + 1)
		is("when it is over", slog.LevelInfo, 0)

		p.SetLogLevel("debug", time.Minute)
		time.Sleep(30 * time.Second)
		p.SetLogLevel("error", time.Hour)
		time.Sleep(45 * time.Second)
		is("the first timer must not end the second change", slog.LevelError, time.Hour-45*time.Second)
		p.SetLogLevel("warn", 0)
		time.Sleep(2 * time.Hour)
		is("without an end", slog.LevelWarn, 0)

		p.SetLogLevel("debug", time.Hour)
		o.Process.LogLevel = "error"
		level.Set(slog.LevelError) // as the process does before it tells the node
		p.reload(o)
		is("after a reload", slog.LevelError, 0)
		time.Sleep(2 * time.Hour)
		is("long after the reload", slog.LevelError, 0)
		for _, s := range p.Settings().Settings {
			if s.Name == "log-level" && (s.Value != "error" || s.Source != "reloaded configuration") {
				t.Errorf("%+v", s)
			}
		}
		p.SetLogLevel("debug", time.Hour)
		p.level.close()
		time.Sleep(2 * time.Hour)
		if level.Level() != slog.LevelDebug {
			t.Error("a closed node still changes the level")
		}
		if n := strings.Count(said.String(), "log level changed"); n != 7 {
			t.Errorf("%d of 7 changes were logged:\n%s", n, said.String())
		}
	})
}

func TestSettingsHaveSourcesAndNoPasswords(t *testing.T) {
	o := config.Default()
	o.Zone = "http://user:secret@zone/?token=x"
	p := newProcess(&Config{Options: o, Sources: map[string]string{"zone": "file"}, Level: new(slog.LevelVar)})
	found := 0
	for _, s := range p.Settings().Settings {
		switch {
		case s.Name == "zone" && s.Source == "file", s.Name == "join" && s.Source == "default":
			found++
		}
		if strings.Contains(s.Value, "secret") || strings.Contains(s.Value, "token=x") {
			t.Errorf("%+v", s)
		}
	}
	if found != 2 {
		t.Errorf("found %d", found)
	}
}
