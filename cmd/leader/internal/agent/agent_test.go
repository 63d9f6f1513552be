package agent

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

func TestTheStreamIsTheTerm(t *testing.T) {
	var raised []fence.Claim
	s := serve(t, raiser(func(_ context.Context, c fence.Claim) error {
		raised = append(raised, c)
		return nil
	}))
	r := s.stands(`{"resource":"orders","holder":"one"}`)
	e := r.next()
	if e.Event != Leading || e.Resource != "orders" || e.Holder != "one" || e.ID == "" ||
		e.Left <= 0 || e.Until.IsZero() {
		t.Errorf("%+v", e)
	}
	if len(raised) != 1 || raised[0].Token.String() != e.Token || raised[0].Issuer != e.Issuer {
		t.Errorf("told of the term before its mark was raised: %v, %+v", raised, e)
	}
	c := raised[0]
	want := Carry{
		PGOPTIONS: "-c fence.orders=" + e.Token, Fence: "FENCE orders " + e.Token,
		ClientName: "fence.orders." + e.Token,
		Pass:       strings.Join([]string{"orders", e.Token, string(e.Issuer), c.Candidate}, " "),
	}
	if !reflect.DeepEqual(*e.Carry, want) {
		t.Errorf("got %+v, want %+v", *e.Carry, want)
	}
	s.led("one")
	r.close()
	s.led("") // resigned
}

func TestWhoWaitsIsToldForWhom(t *testing.T) {
	for _, name := range []string{"two", "one"} { // two programs may have one name
		s := serve(t)
		first := s.stands(`{"resource":"orders","holder":"one"}`)
		first.next()
		second := s.stands(`{"resource":"orders","holder":"` + name + `"}`)
		e := second.until(Waiting)
		for e.Place == 0 { // not known yet
			e = second.until(Waiting)
		}
		if e.Place != 1 || e.Leader != "one" {
			t.Errorf("%+v", e)
		}
		first.close()
		if e := second.until(Leading); e.Holder != name {
			t.Errorf("%+v", e)
		}
	}
}

func TestATermEnds(t *testing.T) {
	for why, end := range map[Cause]func(s *served, e Event){
		Deposed: func(s *served, e Event) {
			token, _ := fence.ParseToken(e.Token)
			if _, err := s.other.Depose(s.t.Context(), "orders", token); err != nil {
				s.t.Error(err)
			}
		},
		Resigned: func(s *served, e Event) {
			s.ask(s.t.Context(), "DELETE", "/v1/terms/"+e.ID, "").Body.Close()
		},
		Stopped: func(s *served, _ Event) { go s.stop() },
	} {
		t.Run(string(why), func(t *testing.T) {
			s := serve(t)
			r := s.stands(`{"resource":"orders"}`)
			e := r.next()
			if !strings.HasPrefix(e.Holder, "test/") {
				t.Errorf("holder %q", e.Holder)
			}
			end(s, e)
			r.ends(why)
			s.led("")
		})
	}
}

func TestAStoreThatRefusesEndsTheTermBeforeItBegins(t *testing.T) {
	stale := &fence.Refusal{Reason: fence.ErrStale, Message: "stale"}
	for _, c := range []struct {
		err error
		why Cause
	}{
		{stale, Superseded}, {io.EOF, Failed}, {&fence.Refusal{
			Reason: fence.ErrOtherIssuer, Message: "another",
		}, Refused},
		{&fence.Refusal{
			Reason: fence.ErrUnrevoked, Message: "it goes on",
		}, Failed}, {carrier.ErrNoGuard, Refused},
	} {
		s := serve(t, raiser(func(context.Context, fence.Claim) error { return c.err }))
		s.stands(`{"resource":"orders"}`).ends(c.why)
		s.led("")
	}
}

// elected is a coordinator with a campaign of the test's.
type elected struct {
	elector.Coordinator
	campaign func(fence.Resource) (*fence.Term, error)
}

// Campaign implements fence.Elector.
func (e elected) Campaign(_ context.Context, r fence.Resource, _ string) (*fence.Term, error) {
	return e.campaign(r)
}

func TestACoordinatorThatRefusesNeedsAnOperator(t *testing.T) {
	s := serve(t)
	s.agent.Coordinator = elected{s.agent.Coordinator, func(fence.Resource) (*fence.Term, error) {
		return nil, io.EOF
	}}
	s.stands(`{"resource":"orders"}`).ends(Refused)
}

// hanging is a term whose resignation waits.
type hanging struct {
	t    *testing.T
	goOn chan struct{}
}

// Acknowledge implements elector.Backing.
func (hanging) Acknowledge(context.Context) error { return nil }

// Release implements elector.Backing.
func (h hanging) Release(context.Context) error {
	select {
	case <-h.goOn:
	case <-time.After(30 * time.Second):
		h.t.Error("resigns before the client is told")
	}
	return nil
}

func TestAClientIsToldOfTheEndBeforeTheAgentResigns(t *testing.T) {
	t.Parallel()
	s, h := serve(t), hanging{t, make(chan struct{})}
	s.agent.Coordinator = elected{s.agent.Coordinator, func(r fence.Resource) (*fence.Term, error) {
		term, _ := elector.NewTerm(fence.Claim{Resource: r, Token: 1}, time.Now(), time.Hour, h)
		return term, nil
	}}
	r := s.stands(`{"resource":"orders"}`)
	s.ask(t.Context(), "DELETE", "/v1/terms/"+r.next().ID, "").Body.Close()
	if e := r.next(); e.Event != Lost || e.Cause != Resigned {
		t.Errorf("%+v", e)
	}
	close(h.goOn)
	if r.lines.Scan() || r.lines.Err() != nil {
		t.Errorf("after the end: %q, %v", r.lines.Text(), r.lines.Err())
	}
}

func TestAProgramThatDoesNotReadLosesItsTerm(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.agent.Session = 60 * time.Millisecond // an event every third of it
	c := s.dials()
	s.led("one")
	s.led("")
	all, _ := io.ReadAll(c)
	if n := strings.Count(string(all), `"event":`); n < 2 || n > 30 {
		t.Errorf("lost after %d events that nobody has read", n)
	}
}
