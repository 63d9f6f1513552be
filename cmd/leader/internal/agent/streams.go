package agent

import (
	"context"
	"net/http"
)

// MaxStreams is how many streams an agent serves at once: terms, candidacies and watches. Each
// needs an open file.
const MaxStreams = 20_000

// place is that of a stream.
type place struct {
	context.Context
	end context.CancelCauseFunc
}

// enter gives a stream a place, which ends with the request, or with the agent.
func (a *Agent) enter(r *http.Request) (*place, error) {
	ctx, end := context.WithCancelCause(r.Context())
	p := &place{ctx, end}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.places) >= MaxStreams {
		end(nil)
		return nil, errNoPlace
	}
	if a.places == nil {
		a.places = map[*place]bool{}
	}
	a.places[p] = true
	a.running.Add(1)
	return p, nil
}

func (a *Agent) leave(p *place) {
	p.end(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.places, p)
	a.running.Done()
}

// Close ends all streams, resigns their terms, and returns when that is done.
func (a *Agent) Close() {
	a.mu.Lock()
	a.closed = true
	for p := range a.places {
		p.end(errStopping)
	}
	a.mu.Unlock()
	a.running.Wait()
}
