package agent

import (
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/settings"
)

//go:embed openapi.yaml
var openAPI []byte

const maxBody = 64 << 10 // bytes of a request

// Agent holds terms over one client of the coordinator.
type Agent struct {
	Coordinator elector.Coordinator
	Holder      string         // the beginning of a holder's name, for who gives none
	Stores      []fence.Raiser // the mark is raised on every one, for who names none
	Table       stores.Table   // opens the stores that a client names
	Raise       time.Duration  // how long one store may take
	URLs        settings.URLs  // those of Stores
	Carry       carrier.Setting
	Session     time.Duration // the session timeout of the coordinator
	User        int           // whose processes may use what Carry opens, besides root
	Token       string        // that a client has to send; "" where the listener knows its clients
	Log         *slog.Logger

	mu      sync.Mutex
	closed  bool
	places  map[*place]bool
	terms   map[string]*term
	running sync.WaitGroup
}

// Handler returns the API.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/terms", a.stand)
	mux.HandleFunc("GET /v1/terms", a.list)
	mux.HandleFunc("DELETE /v1/terms/{id}", a.giveUp)
	mux.HandleFunc("POST /v1/terms/{id}/beat", a.beat)
	mux.HandleFunc("GET /v1/leaders/{resource}", a.leader)
	mux.HandleFunc("GET /v1/leaders/{resource}/events", a.leaders)
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	access := webpage.Access{Token: a.Token, Setting: "LEADER_HTTP_TOKEN"}
	return webpage.API(access, maxBody, mux)
}

// Request is the body of POST /v1/terms.
type Request struct {
	Resource string `json:"resource"`
	// who the program is, for people; the agent makes a name if it is empty
	Holder string         `json:"holder"`
	Stores []settings.URL `json:"stores"` // in place of LEADER_STORES
}

// stand stands for election. The answer is the term.
func (a *Agent) stand(w http.ResponseWriter, r *http.Request) {
	t, err := a.asked(r)
	if err != nil {
		fail(w, err)
		return
	}
	defer stores.Close(t.own)
	p, err := a.enter(r)
	if err != nil {
		fail(w, err)
		return
	}
	defer a.leave(p)
	t.cancel, t.out = p.end, begin(w, r)
	a.keep(t)
	defer a.forget(t)
	t.run(p)
}

// asked reads what a client asks for.
func (a *Agent) asked(r *http.Request) (*term, error) {
	var asked Request
	if err := webpage.ReadJSON(r, &asked); err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	t := &term{agent: a, id: strings.ToLower(rand.Text()[:12]), holder: asked.Holder, stores: a.Stores}
	t.client.unread = unreadOf(r.Context())
	urls := a.URLs
	if t.holder == "" {
		t.holder = a.Holder + "/" + t.id
	}
	var err error
	if t.resource, err = fence.ParseResource(asked.Resource); err != nil {
		return nil, err
	}
	if err := elector.CheckHolder(t.holder); err != nil {
		return nil, err
	}
	if asked.Stores != nil {
		if urls, err = stores.Foreign(asked.Stores); err != nil {
			return nil, err
		}
		if err := errors.Join(a.Table.Check("stores", urls)...); err != nil {
			return nil, err
		}
		t.own = a.Table.Raisers(urls, a.Coordinator, a.Raise)
		t.stores = t.own
	}
	if t.routes, err = carrier.Routes(a.Carry, urls); err != nil {
		stores.Close(t.own)
		return nil, err
	}
	for i := range t.routes {
		t.routes[i].Private = asked.Stores == nil && (a.Token != "" || a.User != os.Getuid())
	}
	return t, nil
}

func (a *Agent) keep(t *term) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.terms == nil {
		a.terms = map[string]*term{}
	}
	a.terms[t.id] = t
	t.show(Event{Event: Standing, ID: t.id, Resource: t.resource, Holder: t.holder})
}

func (a *Agent) forget(t *term) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.terms, t.id)
}

// list shows the terms, and who waits for one.
func (a *Agent) list(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	all := slices.Collect(maps.Values(a.terms))
	a.mu.Unlock()
	shown := make([]Event, len(all))
	for i, t := range all {
		shown[i] = t.listed()
	}
	slices.SortFunc(shown, func(a, b Event) int {
		return strings.Compare(string(a.Resource)+" "+a.ID, string(b.Resource)+" "+b.ID)
	})
	webpage.Answer(w, http.StatusOK, map[string]any{"terms": shown})
}

// beat takes a beat of a client. From the first one on, the client has to send them.
func (a *Agent) beat(w http.ResponseWriter, r *http.Request) {
	if t := a.term(w, r); t != nil {
		t.client.beat()
		webpage.Answer(w, http.StatusOK, t.listed())
	}
}

// term returns the one that a request names; nil if there is none, which it answers.
func (a *Agent) term(w http.ResponseWriter, r *http.Request) *term {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.terms[r.PathValue("id")]
	if t == nil {
		fail(w, errNoTerm)
	}
	return t
}

// giveUp ends a term, or a candidacy. Its stream says so.
func (a *Agent) giveUp(w http.ResponseWriter, r *http.Request) {
	t := a.term(w, r)
	if t == nil {
		return
	}
	t.cancel(errDeleted)
	webpage.Answer(w, http.StatusAccepted, t.listed())
}
