package page

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// led is a page of a guard whose coordinator a test plays.
type led struct {
	t *testing.T
	*Page
	notify   func(marks.Event)
	leaders  map[fence.Resource]elector.Candidate
	followed map[fence.Resource]marks.Election
}

func elected(t *testing.T) *led {
	l := &led{
		t: t, leaders: map[fence.Resource]elector.Candidate{},
		followed: map[fence.Resource]marks.Election{},
	}
	l.Page = New(Options{
		Guard: "guard-1",
		Leaders: func(
			_ context.Context, rs ...fence.Resource,
		) (fence.Issuer, []elector.Candidate, error) {
			var all []elector.Candidate
			for _, r := range rs {
				all = append(all, l.leaders[r])
			}
			return "zk:one", all, nil
		},
		Followed: func() map[fence.Resource]marks.Election { return l.followed },
	})
	l.notify, _ = l.Watch(empty("postgres"))
	return l
}

// lead has a leader win, which raises the mark. 0 ends the term.
func (l *led) lead(r fence.Resource, token fence.Token) {
	l.t.Helper()
	l.leaders[r] = elector.Candidate{Token: token, Holder: fmt.Sprint("host-", token)}
	if token != 0 {
		l.notify(marks.Event{Kind: marks.Raised, Claim: claim(r, token)})
	}
	must.Succeed(l.t, l.ask(l.t.Context()))
}

func TestThePageSaysWhoLeadsNowAndNotWhoRaisedTheMark(t *testing.T) {
	l := elected(t)
	if r := l.state(); len(r.Resources) != 0 || !r.Elected {
		t.Errorf("%+v", r)
	}
	l.lead("orders", 5)
	l.lead("stock", 7)
	l.lead("stock", 0)
	rows := l.state().Resources
	if len(rows) != 2 || rows[0].Resource != "stock" || rows[0].Leader.Token != 0 ||
		rows[0].Leader.Since.IsZero() ||
		rows[0].Marks[0].Token != 7 {
		t.Fatalf("the resource without a leader is not the first one: %+v", rows)
	}
	if rows[0].Terms[0].End.IsZero() {
		t.Errorf("the term has no end: %+v", rows[0].Terms)
	}
	if leader := rows[1].Leader; leader.Token != 5 || leader.Holder != "host-5" ||
		!rows[1].Terms[0].End.IsZero() {
		t.Errorf("orders: %+v, %+v", leader, rows[1].Terms)
	}
	l.lead("stock", 9)
	if r := l.state().Resources[0]; r.Resource != "stock" || r.Leader.Token != 9 ||
		r.Terms[0].End.IsZero() || !r.Terms[1].End.IsZero() {
		t.Errorf("after the next win: %+v", r)
	}
}

func TestWhatTheGuardHasFollowedSaysSinceWhen(t *testing.T) {
	l := elected(t)
	ago := time.Now().Add(-8 * time.Minute)
	l.followed["orders"] = marks.Election{Since: ago}
	if err := l.ask(t.Context()); err != nil { // nobody has raised a mark, as far as this page knows
		t.Fatal(err)
	}
	if r := l.state().Resources; len(r) != 1 || r[0].Leader == nil || !r[0].Leader.Since.Equal(ago) ||
		r[0].Idle {
		t.Errorf("%+v", r)
	}
	l.followed["orders"] = marks.Election{Since: ago.Add(-idleAfter)}
	l.followed["job_g_ab12cd34_3"] = marks.Election{Since: ago}
	must.Succeed(t, l.ask(t.Context()))
	for _, r := range l.state().Resources {
		if !r.Idle {
			t.Errorf("not folded: %+v", r)
		}
	}
}

func TestAResourceWithASessionIsNotIdle(t *testing.T) {
	now := time.Now()
	used := guard.MarkRow{Mark: marks.Mark{Raised: now.Add(-2 * idleAfter), Sessions: 1}}
	unused := guard.MarkRow{Mark: marks.Mark{Raised: now.Add(-2 * idleAfter)}}
	for i, c := range []struct {
		r    Resource
		idle bool
	}{
		{Resource{Marks: []guard.MarkRow{unused}}, true},
		{Resource{Marks: []guard.MarkRow{unused, used}}, false},
		{Resource{Marks: []guard.MarkRow{unused}, Leader: &Election{Token: 5}}, false},
		{Resource{Marks: []guard.MarkRow{unused}, Leader: &Election{Since: now}}, false},
		{Resource{Resource: "job_g_ab12cd34_3", Leader: &Election{Since: now}}, true},
	} {
		if c.r.idle(now) != c.idle {
			t.Errorf("%d: %+v", i, c.r)
		}
	}
}

func TestPartsSayWhatIsOutAndSinceWhen(t *testing.T) {
	p, _, _ := fresh()
	look := func(postgres, coordinator error) []Part {
		p.Look(guard.Look{
			Protocols: map[string]error{
				"postgres": postgres, "redis": nil,
			}, Coordinator: coordinator, Coordinated: true,
		})
		return p.state().Parts
	}
	well := look(nil, nil)
	if len(well) != 3 || well[0].Name != "postgres" || well[2].Name != coordinator || well[0].Error+
		well[1].Error+well[2].Error != "" {
		t.Fatalf("%+v", well)
	}
	out := look(errors.New("it did not answer"), nil)
	if out[0].Error != "it did not answer" || !out[0].Since.After(well[0].Since) ||
		!out[1].Since.Equal(well[1].Since) {
		t.Errorf("%+v", out)
	}
	still := look(errors.New("it refuses connections"), nil)
	if still[0].Error != "it refuses connections" || !still[0].Since.Equal(out[0].Since) {
		t.Errorf("%+v", still)
	}
	if again := look(nil, errors.New("frozen")); again[0].Error != "" || again[2].Error != "frozen" {
		t.Errorf("%+v", again)
	}
}
