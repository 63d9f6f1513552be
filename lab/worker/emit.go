package worker

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
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

	mu    sync.Mutex
	wrote written // since the last line
	total int
}

// written is what was acknowledged under one token.
type written struct {
	token   fence.Token
	entries map[string]int // by store
	last    time.Time      // when the last answer came
}

func newLogger(log *slog.Logger) *logger {
	return &logger{log: log, wrote: written{entries: map[string]int{}}}
}

// add may be called from any goroutine.
func (s *logger) add(e history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Kind == history.Return && e.Outcome == history.OK && e.Do != history.Raise {
		s.count(e)
		return
	}
	s.tell() // what was written before this
	switch {
	case e.Kind == history.Term:
		s.term(e)
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

// count counts an entry. The caller holds the mutex, as that of tell does.
func (s *logger) count(e history.Event) {
	if s.wrote.token != e.Token {
		s.tell()
		s.wrote = written{token: e.Token, entries: map[string]int{}}
	}
	s.wrote.entries[e.Store]++
	s.wrote.last = time.Now()
	s.total++
}

// everySecond logs how many entries were written, if any.
func (s *logger) everySecond() (stop func()) {
	over := make(chan struct{})
	var counting sync.WaitGroup
	tell := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tell()
	}
	counting.Go(func() {
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for {
			select {
			case <-second.C:
				tell()
			case <-over:
				tell()
				return
			}
		}
	})
	return func() { close(over); counting.Wait() }
}

// tell logs what was written since the last line. A worker that was paused says it when it wakes,
// so the line has the time of the last answer.
func (s *logger) tell() {
	if len(s.wrote.entries) == 0 {
		return
	}
	s.log.Info("wrote until "+s.wrote.last.Format("15:04:05.000"), "token", s.wrote.token,
		"postgres", s.wrote.entries["postgres"], "redis", s.wrote.entries["redis"], "total", s.total)
	clear(s.wrote.entries)
}
