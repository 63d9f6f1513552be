package page

import (
	"context"
	"embed"
	"net/http"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

//go:embed files
var files embed.FS

// Page is the status page. Call Watch for each store, then Register and Run.
type Page struct {
	board   board
	readers []*reader
	streams streams
}

// Store is a database that the guard serves.
type Store struct {
	Name string // such as postgres
	// Marks reads all marks. The page shows its error, which must have no secrets.
	Marks    func(context.Context) ([]marks.Mark, error)
	Sessions func() []marks.OpenSession // of this guard
	Refusals func() []guard.Refusals    // by this guard
}

// New makes the page of a guard, which has a name for people.
func New(guard string) *Page {
	return &Page{
		board:   board{guard: short(guard), started: time.Now()},
		streams: streams{stop: make(chan struct{})},
	}
}

// Watch adds a store. It returns a function that hears of the store's events.
func (p *Page) Watch(s Store) func(marks.Event) {
	p.readers = append(p.readers, &reader{store: s, board: &p.board, opened: make(chan struct{}, 1)})
	p.board.add(s)
	return func(e marks.Event) { p.board.event(s.Name, e) }
}

// Run reads marks while somebody looks at the page. When ctx ends, it ends all streams, and returns
// when they have ended.
func (p *Page) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, r := range p.readers {
		running.Go(func() { r.run(ctx, &p.streams) })
	}
	<-ctx.Done()
	p.streams.close()
	running.Wait()
}

// Register adds the page to a mux.
func (p *Page) Register(mux *http.ServeMux) {
	file := func(pattern, name string) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			secure(w.Header())
			http.ServeFileFS(w, r, files, "files/"+name)
		})
	}
	file("/{$}", "page.html")
	for _, name := range []string{"page.css", "page.js", "stairs.js", "icon.svg"} {
		file("/"+name, name)
	}
	mux.HandleFunc("GET /events", p.events)
}

// secure has the browser run and load nothing but the page's own files, and keep no copy.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "+
		"img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "+
		"frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
