package page

import (
	"context"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
)

// Election is who leads a resource now.
type Election struct {
	Token  fence.Token `json:"token"` // 0: nobody leads
	Holder string      `json:"holder"`
	Since  time.Time   `json:"since,omitzero"` // zero if it began before this guard looked
}

// election is what the page knows of one election.
type election struct {
	now  Election
	ends []end // the oldest first, at most maxSteps
}

// end is the end of a term, as this guard has seen it.
type end struct {
	token fence.Token
	at    time.Time
}

// changed enters who leads now, and reports whether that is news.
func (e *election) changed(to Election) bool {
	if e.now == to {
		return false
	}
	if e.now.Token != 0 && e.now.Token != to.Token && !to.Since.IsZero() {
		if len(e.ends) == maxSteps {
			e.ends = slices.Delete(e.ends, 0, 1)
		}
		e.ends = append(e.ends, end{e.now.Token, to.Since})
	}
	e.now = to
	return true
}

// ask asks the coordinator who leads the resources of the page.
func (p *Page) ask(ctx context.Context) error {
	resources := p.shown()
	if len(resources) == 0 {
		return nil
	}
	_, leaders, err := p.Leaders(ctx, resources...)
	if err != nil {
		return err
	}
	followed := p.Followed()
	now := time.Now()
	p.change(func() (news bool) {
		all := make(map[fence.Resource]*election, len(resources))
		for i, r := range resources {
			e := p.elections[r]
			if e == nil {
				e = &election{}
				news = true
			}
			leader := Election{Token: leaders[i].Token, Holder: short(leaders[i].Holder)}
			switch f, ok := followed[r]; {
			case ok && f.Token == leader.Token:
				leader.Since = f.Since
			case e.now.Token == leader.Token:
				leader.Since = e.now.Since
			case e.now.Token != 0:
				leader.Since = now
			}
			news = e.changed(leader) || news
			all[r] = e
		}
		p.elections = all
		return news
	})
	return nil
}

// shown returns the resources of the page: those of the marks, and those that this guard follows
// and nobody leads.
func (p *Page) shown() (all []fence.Resource) {
	followed := p.Followed()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stores {
		for r := range s.resources {
			all = append(all, r)
		}
	}
	vacant := 0
	for r, e := range followed {
		if e.Token == 0 && vacant < maxResources {
			all = append(all, r)
			vacant++
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// idleAfter is how long nobody may lead a resource before the page folds it.
const idleAfter = 24 * time.Hour

// idle reports whether nothing is to be said of a resource: nobody uses it, and that is usual for
// it, or nobody has used it for a day.
func (r *Resource) idle(now time.Time) bool {
	last := r.raised()
	for _, m := range r.Marks {
		if m.Sessions > 0 {
			return false
		}
	}
	if r.Leader != nil {
		if r.Leader.Token != 0 {
			return false
		}
		if r.Leader.Since.After(last) {
			last = r.Leader.Since
		}
	}
	return guard.OfJobs(r.Resource) || now.Sub(last) > idleAfter
}

// addElections adds who leads, and when the terms ended. The caller holds the mutex.
func (p *Page) addElections(all map[fence.Resource]*Resource) {
	for name, e := range p.elections {
		r := all[name]
		if r == nil {
			r = &Resource{Resource: name, Marks: []guard.MarkRow{}, Terms: []Term{}}
			all[name] = r
		}
		r.Leader = &Election{e.now.Token, e.now.Holder, e.now.Since}
		for i := range r.Terms {
			t := &r.Terms[i]
			if at := slices.IndexFunc(e.ends, func(e end) bool { return e.token == t.Token }); at >= 0 {
				t.End = e.ends[at].at
			}
		}
	}
}
