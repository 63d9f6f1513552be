package page

import (
	"context"
	"embed"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/program/webpage"
)

//go:embed files
var files embed.FS

// Page is the status page. Call Watch for each store, before Run or meanwhile, and Register and Run.
type Page struct {
	guard   string // its name, for people
	started time.Time
	streams *webpage.Streams

	mu      sync.Mutex
	changed chan struct{} // closed by the next change; nil while nobody waits for one
	stores  []*store
	running context.Context // of Run; nil before and after it
	reading sync.WaitGroup
}

// New makes the page of a guard, which has a name for people.
func New(guard string) *Page {
	return &Page{guard: short(guard), started: time.Now(), streams: webpage.NewStreams()}
}

// Watch adds a store. It returns a function that hears of the store's events, and one that takes the
// store from the page again. Without a page (nil) both do nothing.
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
		p.keepReading(ctx, s)
	})
}

// Run reads marks while somebody looks at the page. When ctx ends, it ends all streams, and returns
// when they have ended.
func (p *Page) Run(ctx context.Context) {
	p.mu.Lock()
	p.running = ctx
	for _, s := range p.stores {
		p.start(s)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.running = nil // nobody starts to read any more
	p.mu.Unlock()
	p.streams.Close()
	p.reading.Wait()
}

// wake has all stores read now: somebody has begun to look.
func (p *Page) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stores {
		select {
		case s.opened <- struct{}{}:
		default:
		}
	}
}

// Register adds the page to a mux.
func (p *Page) Register(mux *http.ServeMux) {
	webpage.Register(mux, files, "page.html", "page.js", "stairs.js", "stairs.css")
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		p.streams.Serve(w, r, p.wake, func() (any, <-chan struct{}) {
			changed := p.next() // before the state, which then has every earlier change
			return p.state(), changed
		})
	})
}
