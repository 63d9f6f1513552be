package agent

import (
	"context"
	"net/http"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// Leader is who leads a resource; without a token nobody does.
type Leader struct {
	Resource fence.Resource `json:"resource"`
	Holder   string         `json:"holder,omitempty"`
	Token    string         `json:"token,omitempty"`
	Ready    bool           `json:"ready"` // its mark is raised
	Waiting  int            `json:"waiting"`
}

func leading(r fence.Resource, all []elector.Candidate) Leader {
	l := Leader{Resource: r}
	if len(all) > 0 {
		l.Holder, l.Token, l.Ready, l.Waiting = all[0].Holder, all[0].Token.String(), all[0].Ready,
			len(all)-1
	}
	return l
}

// leader says who leads.
func (a *Agent) leader(w http.ResponseWriter, r *http.Request) {
	resource, err := fence.ParseResource(r.PathValue("resource"))
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.Session)
	defer cancel()
	all, err := a.Coordinator.Candidates(ctx, resource)
	if err != nil {
		webpage.Fail(w, http.StatusServiceUnavailable, err)
		return
	}
	webpage.Answer(w, http.StatusOK, leading(resource, all))
}

// leaders streams who leads.
func (a *Agent) leaders(w http.ResponseWriter, r *http.Request) {
	resource, err := fence.ParseResource(r.PathValue("resource"))
	if err != nil {
		fail(w, err)
		return
	}
	p, err := a.enter(r)
	if err != nil {
		fail(w, err)
		return
	}
	defer a.leave(p)
	out := begin(w, r)
	if r.Method == http.MethodHead {
		return
	}
	// it ends with the client
	_ = a.Coordinator.Watch(p, resource, func(all []elector.Candidate) error {
		return out.send("leader", leading(resource, all), webpage.Patience)
	})
}
