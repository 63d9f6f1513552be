package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// told is a client's answer: the events that it was sent.
type told struct {
	mu  sync.Mutex
	all []Event
}

func (*told) Header() http.Header { return http.Header{} }
func (*told) WriteHeader(int)     {}
func (*told) Flush()              {}

func (o *told) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var e Event
	err := json.Unmarshal(line, &e)
	o.all = append(o.all, e)
	return len(line), err
}

func (o *told) events() []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

// held runs a term until the test ends.
func held(t *testing.T, c elector.Coordinator, session time.Duration) (*term, *told) {
	x, out := prepared(c, session)
	start(t, x)
	return x, out
}

func prepared(c elector.Coordinator, session time.Duration) (*term, *told) {
	out := &told{}
	a := &Agent{Coordinator: c, Raise: time.Hour, Session: session, Log: slog.New(slog.DiscardHandler)}
	return &term{
		agent: a, id: "x", resource: "orders", holder: "one", out: &stream{w: out},
		client: client{unread: unreadOf(context.Background())},
	}, out
}

func start(t *testing.T, x *term) {
	ctx, cancel := context.WithCancelCause(t.Context())
	x.cancel = cancel
	ended := make(chan struct{})
	go func() { defer close(ended); x.run(ctx) }()
	t.Cleanup(func() { cancel(nil); <-ended })
}

// A coordinator may grant a much shorter session than the agent has asked for.
func TestTheDeadlineIsToldThreeTimesInASession(t *testing.T) {
	const granted = 40 * time.Second
	for _, asked := range []time.Duration{time.Hour, granted, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := fencetest.NewMemory(granted).Open()
			defer c.Close()
			_, out := held(t, c, asked)
			time.Sleep(10 * time.Minute)
			all := out.events()
			at := func(e Event) time.Time {
				return e.Until.Add(-time.Duration(e.Left * float64(time.Second)))
			}
			most := min(asked, granted)/3 + time.Millisecond
			for i, e := range all[1:] {
				if late := at(e).Sub(at(all[i])); e.Event != Alive || late > most ||
					!at(e).Before(all[i].Until) {
					t.Errorf("asked for %s: %+v came after %s", asked, e, late)
				}
			}
			if n := len(all); n < int(10*time.Minute/most) || n > int(10*time.Minute/(most/3)) {
				t.Errorf("asked for %s: %d events", asked, n)
			}
		})
	}
}

func TestASuspendedTermIsShownAsThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fencetest.NewMemory(10 * time.Second).Open()
		defer c.Close()
		x, out := held(t, c, 10*time.Second)
		time.Sleep(time.Second)
		last := func(want, listed What) {
			t.Helper()
			synctest.Wait()
			all := out.events()
			if e := all[len(all)-1]; e.Event != want || x.listed().Event != listed ||
				x.listed().Token != "1" {
				t.Errorf("told %+v, listed %+v", e, x.listed())
			}
		}
		last(Leading, Leading)
		c.Cut()
		last(Suspended, Suspended)
		time.Sleep(8 * time.Second)
		last(Suspended, Suspended)
		if left := out.events()[1].Left; left < 5 || left > 10 {
			t.Errorf("%f s are left", left)
		}
		c.Heal()
		last(Resumed, Leading)
		time.Sleep(5 * time.Second)
		last(Alive, Leading)
	})
}

// A candidate that waits knows by its events that the agent is there, also while the marks are
// being raised.
func TestWhoWaitsIsToldThreeTimesInASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const session = 10 * time.Second
		m := fencetest.NewMemory(session)
		c, other := m.Open(), m.Open()
		defer other.Close()
		defer c.Close()
		first, err := other.Campaign(t.Context(), "orders", "first")
		if err != nil {
			t.Fatal(err)
		}
		x, out := prepared(c, session)
		raising := make(chan struct{})
		x.stores = []fence.Raiser{raiser(func(context.Context, fence.Claim) error {
			<-raising
			return nil
		})}
		start(t, x)
		const third = session/3 + time.Millisecond
		time.Sleep(10 * third)
		waits := out.events()
		if err := first.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * third)
		all := out.events()
		if len(waits) < 10 || len(all)-len(waits) < 9 {
			t.Errorf("%d events, then %d", len(waits), len(all)-len(waits))
		}
		for i, e := range all {
			at := Event{Event: Waiting, ID: "x", Resource: "orders", Holder: "one"}
			if i < len(waits) {
				at.Place, at.Leader = 1, "first"
			}
			if e != at {
				t.Errorf("event %d: %+v", i, e)
			}
		}
		close(raising)
		synctest.Wait()
		if all = out.events(); all[len(all)-1].Event != Leading {
			t.Errorf("%+v", all[len(all)-1])
		}
	})
}
