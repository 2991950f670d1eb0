package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

// logLines logs lines while the pipe is not read.
func logLines(t *testing.T, log *slog.Logger, lines int, filler string) {
	t.Helper()
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for i := range lines {
			log.Info("line", "i", i, "filler", filler)
		}
	}()
	select {
	case <-logged:
	case <-time.After(patience):
		t.Fatal("the process waits for the reader of its log")
	}
}

// A node does not wait for the reader of its log. Lines are kept in order, and those that are too
// many are reported once the reader continues.
func TestNobodyWaitsForTheLog(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := newLogOut(w)
	log := newLogger(out, w, "text", slog.LevelInfo, "")
	const lines = 4000
	filler := strings.Repeat("x", 1000)
	logLines(t, log, lines, filler)
	seen, said := 0, false
	read := bufio.NewScanner(r)
	for !said && read.Scan() {
		line := read.Text()
		if said = strings.Contains(line, "log lines dropped"); said {
			if want := fmt.Sprintf("lines=%d", lines-seen); !strings.Contains(line, want) {
				t.Errorf("%q, want %s", line, want)
			}
			break
		}
		if !strings.Contains(line, fmt.Sprintf(" i=%d ", seen)) {
			t.Fatalf("line %d is %.80q", seen, line)
		}
		seen++
	}
	if kept := logWaiting / (len(filler) + 200); seen < kept || seen >= lines || !said {
		t.Errorf("%d lines, of %d that fit; dropped lines reported: %v", seen, kept, said)
	}
	out.flush()
	log.Info("afterwards")
	if !read.Scan() || !strings.Contains(read.Text(), "afterwards") {
		t.Errorf("%q", read.Text())
	}
}

// A process that ends writes its last lines if they are read, and ends otherwise, too.
func TestLastLinesAreWritten(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := newLogOut(w)
	log := newLogger(out, w, "text", slog.LevelInfo, "")
	logLines(t, log, 200, strings.Repeat("x", 1000))
	began := time.Now()
	out.flush()
	if took := time.Since(began); took < logFlushTimeout || took > 10*logFlushTimeout {
		t.Errorf("an end without a reader takes %v", took)
	}
	last := make(chan string)
	go func() {
		text := ""
		for read := bufio.NewScanner(r); read.Scan(); {
			text = read.Text()
		}
		last <- text
	}()
	out.flush()
	w.Close()
	if text := <-last; !strings.Contains(text, "i=199 ") {
		t.Errorf("the last line is %.80q", text)
	}
}
