package worker

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// speak tells events to out: as a history, or in words. stop has the last of it said.
func speak(c Config, out io.Writer) (say func(history.Event), stop func()) {
	if c.Log {
		s := newStory(slog.New(slog.NewTextHandler(out, nil)))
		return s.tell, s.everySecond()
	}
	return history.NewWriter(out).Add, func() {}
}

// story tells events to people.
type story struct {
	log *slog.Logger

	mu      sync.Mutex
	entries map[string]int // acknowledged since it was last said, by store
	total   int
}

func newStory(log *slog.Logger) *story { return &story{log: log, entries: map[string]int{}} }

// tell is called from any goroutine.
func (s *story) tell(e history.Event) {
	switch {
	case e.Kind == history.Term:
		s.term(e)
	case e.Kind == history.Return && e.Outcome == history.OK && e.Do != history.Raise:
		s.mu.Lock()
		s.entries[e.Store]++
		s.total++
		s.mu.Unlock()
	case e.Kind == history.Return && (e.Outcome == history.Stale || e.Outcome == history.Refused):
		s.log.Warn("refused: "+e.Text, "process", e.Process, "op", e.Op, "token", e.Token)
	case e.Kind == history.Return && e.Outcome != history.OK:
		s.log.Warn(string(e.Outcome)+": "+e.Text, "process", e.Process, "op", e.Op, "token", e.Token)
	case e.Kind == history.Note:
		s.log.Info(e.Text)
	case e.Kind == history.Fault:
		s.log.Warn(e.Process + " stands inside an open transaction")
	}
}

func (s *story) term(e history.Event) {
	switch e.State {
	case history.Standing:
		s.log.Info(e.Process + " stands for election")
	case history.Ready:
		s.log.Info(e.Process + " leads with token " + e.Token.String())
	case history.Lost:
		s.log.Warn(e.Process+" has lost its term: "+e.Text, "token", e.Token)
	case history.Left:
		s.log.Info(e.Process+" has given its term up", "token", e.Token)
	}
}

// everySecond tells how many entries were written, while any are.
func (s *story) everySecond() (stop func()) {
	over := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
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
	return func() { close(over); telling.Wait() }
}

func (s *story) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) == 0 {
		return
	}
	s.log.Info("has written", "postgres", s.entries["postgres"], "redis", s.entries["redis"], "total", s.total)
	clear(s.entries)
}
