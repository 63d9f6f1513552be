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
	"github.com/ringfence/ringfence/internal/webpage"
)

//go:embed files
var files embed.FS

// Page is the status page. Call Watch for each store, before Run or meanwhile, and Register and Run.
type Page struct {
	board   board
	streams *webpage.Streams

	mu      sync.Mutex
	readers []*reader
	running context.Context // of Run; nil before and after it
	reading sync.WaitGroup
}

// New makes the page of a guard, which has a name for people.
func New(guard string) *Page {
	return &Page{
		board:   board{guard: short(guard), started: time.Now()},
		streams: webpage.NewStreams(),
	}
}

// Watch adds a store. It returns a function that hears of the store's events, and one that takes the
// store from the page again.
func (p *Page) Watch(s guard.Source) (hear func(marks.Event), unwatch func()) {
	shown := &store{Source: s}
	r := &reader{store: shown, board: &p.board, opened: make(chan struct{}, 1)}
	p.mu.Lock()
	p.readers = append(p.readers, r)
	if p.running != nil {
		p.start(r)
	}
	p.mu.Unlock()
	p.board.add(shown)
	return func(e marks.Event) { p.board.event(shown, e) }, func() {
		p.board.remove(shown)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.readers = slices.DeleteFunc(p.readers, func(other *reader) bool { return other == r })
		if r.stop != nil {
			r.stop()
		}
	}
}

// start starts a reader. The caller holds the mutex.
func (p *Page) start(r *reader) {
	ctx, stop := context.WithCancel(p.running)
	r.stop = stop
	p.reading.Go(func() {
		defer stop()
		r.run(ctx, p.streams)
	})
}

// Run reads marks while somebody looks at the page. When ctx ends, it ends all streams, and returns
// when they have ended.
func (p *Page) Run(ctx context.Context) {
	p.mu.Lock()
	p.running = ctx
	for _, r := range p.readers {
		p.start(r)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.running = nil // nobody starts a reader any more
	p.mu.Unlock()
	p.streams.Close()
	p.reading.Wait()
}

// wake has all stores read now: somebody has begun to look.
func (p *Page) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.readers {
		r.wake()
	}
}

// Register adds the page to a mux.
func (p *Page) Register(mux *http.ServeMux) {
	webpage.Register(mux, files, "page.html", "page.js", "stairs.js", "stairs.css")
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		p.streams.Serve(w, r, p.wake, func() (any, <-chan struct{}) {
			changed := p.board.next() // before the state, which then has every earlier change
			return p.board.state(), changed
		})
	})
}
