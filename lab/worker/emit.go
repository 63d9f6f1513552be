package worker

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// newEmitter writes events to out, as a history or as log lines for people. stop flushes it.
func newEmitter(c Config, out io.Writer) (emit func(history.Event), stop func()) {
	if c.Log {
		s := newLogger(slog.New(slog.NewTextHandler(out, nil)))
		return s.add, s.everySecond()
	}
	return history.NewWriter(out).Add, func() {}
}

// logger logs events for people.
type logger struct {
	log *slog.Logger

	mu      sync.Mutex
	entries map[string]int // acknowledged since the last line, by store
	total   int
}

func newLogger(log *slog.Logger) *logger { return &logger{log: log, entries: map[string]int{}} }

// add may be called from any goroutine.
func (s *logger) add(e history.Event) {
	switch {
	case e.Kind == history.Term:
		s.term(e)
	case e.Kind == history.Return && e.Outcome == history.OK && e.Do != history.Raise:
		s.mu.Lock()
		s.entries[e.Store]++
		s.total++
		s.mu.Unlock()
	case e.Kind == history.Return && e.Outcome != history.OK:
		outcome := e.Outcome
		if outcome == history.Stale {
			outcome = history.Refused
		}
		s.log.Warn(string(outcome)+": "+e.Text, "process", e.Process, "op", e.Op, "token", e.Token)
	case e.Kind == history.Note:
		s.log.Info(e.Text)
	case e.Kind == history.Fault:
		s.log.Warn(e.Process + " is stopped inside an open transaction")
	}
}

func (s *logger) term(e history.Event) {
	switch e.State {
	case history.Standing:
		s.log.Info(e.Process + " stands for election")
	case history.Ready:
		s.log.Info(e.Process + " leads with token " + e.Token.String())
	case history.Lost:
		s.log.Warn(e.Process+" has lost its term: "+e.Text, "token", e.Token)
	case history.Left:
		s.log.Info(e.Process+" has given up its term", "token", e.Token)
	}
}

// everySecond logs how many entries were written, if any.
func (s *logger) everySecond() (stop func()) {
	over := make(chan struct{})
	var counting sync.WaitGroup
	counting.Go(func() {
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for {
			select {
			case <-second.C:
				s.count()
			case <-over:
				s.count()
				return
			}
		}
	})
	return func() { close(over); counting.Wait() }
}

func (s *logger) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) == 0 {
		return
	}
	s.log.Info("has written", "postgres", s.entries["postgres"], "redis", s.entries["redis"],
		"total", s.total)
	clear(s.entries)
}
