package jobserver

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
	"github.com/ringfence/ringfence/jobs/schedule"
)

// State is what one message about a group holds.
type State struct {
	Group string `json:"group"`
	// ages are relative to it, not to the clock of the browser
	Now     time.Time          `json:"now"`
	Read    time.Time          `json:"read_at,omitzero"` // when the rest was read; zero if never
	Error   string             `json:"error,omitempty"`  // why it could not be read since
	Workers []queueview.Worker `json:"workers"`
	Counts  map[job.State]int  `json:"counts"`
	Active  []Job              `json:"active"`  // assigned and running, the oldest first
	Waiting []Job              `json:"waiting"` // the next ones
	Failed  []Job              `json:"failed"`  // the last ones, the latest first
	Ended   []Job              `json:"ended"`   // the last ones that are done or were cancelled
}

// Job is a job with what only the group knows of it.
type Job struct {
	job.Status
	WhyWaiting string `json:"why_waiting,omitempty"` // queueview.WhyWaiting

	// Calendar is shown with one job, not in lists.
	Calendar *schedule.Calendar `json:"calendar,omitempty"`
}

const (
	maxShown    = 200              // jobs in each list of a message
	errorShown  = 300              // bytes of an error in a list
	readTimeout = 10 * time.Second // one reading
	readPause   = time.Second      // the shortest pause between two readings
	// a pause is at least so many times as long as the reading before it
	restFor = 20
)

// board is what the streams of one group show. It is read while there is one.
type board struct {
	stop    context.CancelFunc
	reading sync.WaitGroup
	readers int // guarded by boards.mu

	mu      sync.Mutex
	now     State
	changed chan struct{} // closed by the next change
}

// boards are those of the groups that somebody looks at.
type boards struct {
	coordinator documents.Coordinator
	mu          sync.Mutex
	all         map[string]*board
}

// open returns the board of a group. The last one who calls release ends it.
func (b *boards) open(group string) (shown *board, release func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	shown = b.all[group]
	if shown == nil {
		q, err := queueview.New(b.coordinator, group)
		if err != nil {
			return nil, nil, err
		}
		ctx, stop := context.WithCancel(context.Background())
		shown = &board{stop: stop, changed: make(chan struct{}), now: State{Group: group}}
		shown.now.fill(queueview.Overview{})
		shown.reading.Go(func() { shown.read(ctx, q) })
		b.all[group] = shown
	}
	shown.readers++
	return shown, func() { b.release(group, shown) }, nil
}

func (b *boards) release(group string, shown *board) {
	b.mu.Lock()
	shown.readers--
	last := shown.readers == 0
	if last {
		delete(b.all, group)
	}
	b.mu.Unlock()
	if last {
		shown.stop()
		shown.reading.Wait()
	}
}

// read reads the group until ctx ends.
func (b *board) read(ctx context.Context, q *queueview.View) {
	for ctx.Err() == nil {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, readTimeout)
		o, err := q.Overview(limited, maxShown)
		cancel()
		if ctx.Err() != nil {
			return
		}
		b.show(o, err)
		select {
		case <-time.After(max(readPause, restFor*time.Since(began))):
		case <-ctx.Done():
		}
	}
}

// show takes a reading over.
func (b *board) show(o queueview.Overview, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.now.Error = short(err.Error())
	} else {
		b.now.Error, b.now.Read = "", time.Now()
		b.now.fill(o)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// state returns a message, and a channel that the next change closes.
func (b *board) state() (any, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.now
	s.Now = time.Now()
	return s, b.changed
}

// fill makes new lists. Messages that are being sent keep the old ones.
func (s *State) fill(o queueview.Overview) {
	s.Workers = append([]queueview.Worker{}, o.Workers[:min(len(o.Workers), maxShown)]...)
	s.Counts = map[job.State]int{}
	maps.Copy(s.Counts, o.Counts)
	brief := func(all []job.Status) []Job { return brief(all, o) }
	s.Active, s.Waiting, s.Failed, s.Ended = brief(o.Active), brief(o.Waiting), brief(o.Failed),
		brief(o.Ended)
}

// brief leaves out what may be long. Of a history it keeps the last attempt.
func brief(all []job.Status, o queueview.Overview) []Job {
	shown := make([]Job, 0, min(len(all), maxShown))
	for _, s := range all[:min(len(all), maxShown)] {
		s.Result, s.Error, s.History = nil, short(s.Error), s.History[max(0, len(s.History)-1):]
		shown = append(shown, Job{Status: s, WhyWaiting: queueview.WhyWaiting(s, o.Workers, o.Active)})
	}
	return shown
}

func short(text string) string {
	if len(text) > errorShown {
		return text[:errorShown] + "…"
	}
	return text
}
