package page

import (
	"context"
	"embed"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

//go:embed files
var files embed.FS

// Options say whose page it is, and where it learns what the stores do not know.
type Options struct {
	Guard   string // its name, for people
	Version string

	// Leaders asks the coordinator, as elector.Observer has it; nil if there is none.
	Leaders func(context.Context, ...fence.Resource) (fence.Issuer, []elector.Candidate, error)
	// Followed returns what this guard has seen of the elections that it follows; nil for nothing.
	Followed func() map[fence.Resource]marks.Election
}

// Page is the status page. Call Watch for each store, before Run or meanwhile, and Register and
// Run.
type Page struct {
	Options
	started time.Time
	streams *webpage.Streams
	opened  chan struct{} // holds a value after a stream has begun

	mu        sync.Mutex
	changed   chan struct{} // closed by the next change; nil while nobody waits for one
	stores    []*store
	parts     []Part
	elections map[fence.Resource]*election
	running   context.Context // of Run; nil before and after it
	reading   sync.WaitGroup
}

// New makes the page of a guard.
func New(o Options) *Page {
	o.Guard = short(o.Guard)
	if o.Followed == nil {
		o.Followed = func() map[fence.Resource]marks.Election { return nil }
	}
	return &Page{
		Options: o, started: time.Now(), streams: webpage.NewStreams(), opened: make(chan struct{}, 1),
	}
}

// Watch adds a store. It returns a function that hears of the store's events, and one that takes
// the store from the page again. Without a page (nil) both do nothing.
func (p *Page) Watch(from guard.Source) (hear func(marks.Event), unwatch func()) {
	if p == nil {
		return func(marks.Event) {}, func() {}
	}
	s := &store{Source: from, opened: make(chan struct{}, 1), resources: make(resources)}
	p.change(func() bool {
		p.stores = append(p.stores, s)
		if p.running != nil {
			p.start(s)
		}
		return true
	})
	return func(e marks.Event) { p.event(s, e) }, func() {
		p.change(func() bool {
			p.stores = slices.DeleteFunc(p.stores, func(other *store) bool { return other == s })
			if s.stop != nil {
				s.stop()
			}
			return true
		})
	}
}

// start begins to read the marks of a store. The caller holds the mutex.
func (p *Page) start(s *store) {
	ctx, stop := context.WithCancel(p.running)
	s.stop = stop
	p.reading.Go(func() {
		defer stop()
		p.keepReading(ctx, s.opened, func(ctx context.Context) error { return p.read(ctx, s) })
	})
}

// Run reads marks and elections while somebody looks at the page. When ctx ends, it ends all
// streams, and returns when they have ended.
func (p *Page) Run(ctx context.Context) {
	p.mu.Lock()
	p.running = ctx
	for _, s := range p.stores {
		p.start(s)
	}
	if p.Leaders != nil {
		p.reading.Go(func() { p.keepReading(ctx, p.opened, p.ask) })
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.running = nil // nobody starts to read any more
	p.mu.Unlock()
	p.streams.Close()
	p.reading.Wait()
}

// wake has all stores, and the coordinator, read now: somebody has begun to look.
func (p *Page) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := []chan struct{}{p.opened}
	for _, s := range p.stores {
		waiting = append(waiting, s.opened)
	}
	for _, opened := range waiting {
		select {
		case opened <- struct{}{}:
		default:
		}
	}
}

// Register adds the page to a mux.
func (p *Page) Register(mux *http.ServeMux) {
	webpage.Register(mux, files, "page.html", "page.js", "health.js", "lanes.js", "tokens.js",
		"status.css")
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		p.streams.Serve(w, r, p.wake, func() (any, <-chan struct{}) {
			changed := p.next() // before the state, which then has every earlier change
			return p.state(), changed
		})
	})
}
