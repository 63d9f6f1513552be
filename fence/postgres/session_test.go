package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestADeathInALargeElectionWakesOneCandidate(t *testing.T) {
	t.Parallel()
	const candidates = 300
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	leader := electiontest.Win(t, c, "orders", "leader")
	var woken electiontest.Woken
	crowd := openWith(t, d.url(), long, nil)
	crowd.woken = woken.Add
	won := electiontest.Crowd(t, crowd, "orders", candidates)
	queue := electiontest.Queued(t, c, "orders", candidates+1)
	electiontest.Eventually(t, "the crowd listens", func() bool {
		return current(crowd).notices.listening()
	})
	woken.OnlyNext(t, leader, queue, won, 1)
}

func TestAProcessThatLeadsManyElectionsHasOneSession(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), 8*time.Second, nil)
	const elections = 250
	terms := make([]*fence.Term, elections)
	resources := make([]fence.Resource, elections)
	var all sync.WaitGroup
	for i := range elections {
		resources[i] = fence.Resource(fmt.Sprintf("r%d", i))
		all.Go(func() { terms[i] = electiontest.Win(t, c, resources[i], "host") })
	}
	all.Wait()
	if n := d.number(t, "select count(*) from ringfence_private.lease"); n != 1 {
		t.Errorf("%d sessions", n)
	}
	first := make([]time.Time, elections)
	for i, term := range terms {
		first[i] = term.Deadline()
	}
	for i, term := range terms {
		electiontest.Eventually(t, "every term is confirmed by the one session", func() bool {
			return term.Deadline().After(first[i])
		})
	}
	_, leaders, err := c.Leaders(t.Context(), resources...)
	if err != nil || len(leaders) != elections {
		t.Fatalf("%d leaders, %v", len(leaders), err)
	}
	for i, leader := range leaders {
		if leader.Token != terms[i].Token() {
			t.Errorf("%s: %s leads, not %s", resources[i], leader.Token, terms[i].Token())
		}
	}
}

// expired sets the end of a session into the past, as if its client had been silent for so long.
func (d database) expired(t *testing.T, s *session) {
	t.Helper()
	d.sql(t,
		`update ringfence_private.lease
		    set expires_at = clock_timestamp() - interval '1 ms' where id = $1`, s.id)
}

// beat sends one heartbeat of a session, as a delayed packet would.
func beat(t *testing.T, d database, s *session) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.url())
	must.Succeed(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = readPlaces(t.Context(), conn, "beat($1)", s.id)
	return err
}

func TestALateHeartbeatRevivesNothing(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	r := serverstest.NewRelay(t, d.pg.Addr())
	c := openWith(t, d.through(r), long, nil)
	old := electiontest.Win(t, c, "orders", "a")
	s := current(c)
	r.Hold()
	d.expired(t, s)
	if err := beat(t, d, s); !errors.Is(err, errOver) {
		t.Errorf("a heartbeat after the end of the session: %v", err)
	}
	other := openWith(t, d.url(), long, nil)
	newer := electiontest.Win(t, other, "orders", "b")
	if newer.Token() <= old.Token() {
		t.Errorf("%s follows %s", newer.Token(), old.Token())
	}
	if err := beat(t, d, s); !errors.Is(err, errOver) {
		t.Errorf("a heartbeat after the next one leads: %v", err)
	}
	r.Pass()
	electiontest.Ends(t, old, fence.ErrExpired)
	if queue := electiontest.Queued(t, other, "orders", 1); queue[0].Token != newer.Token() {
		t.Errorf("%v leads", queue[0])
	}
	if newer.State() == fence.Lost {
		t.Error("the newer term is lost")
	}
}

// A clock that steps back makes an expired session look alive, so every call that passes it
// over deletes it.
func TestASessionThatWasPassedOverIsGoneWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	type look func(third *Coordinator, next *session) (leader string, err error)
	for name, look := range map[string]look{
		"by who asks who leads": func(third *Coordinator, _ *session) (string, error) {
			_, leaders, err := third.Leaders(t.Context(), "orders")
			if err != nil {
				return "", err
			}
			return leaders[0].Holder, nil
		},
		"by who lists": func(third *Coordinator, _ *session) (string, error) {
			queue, err := third.Candidates(t.Context(), "orders")
			if err != nil || len(queue) == 0 {
				return "", err
			}
			return queue[0].Holder, nil
		},
		"by who is next": func(third *Coordinator, next *session) (string, error) {
			return first(t, third, next, "standing($1, null)")
		},
		"by who is next and beats": func(third *Coordinator, next *session) (string, error) {
			return first(t, third, next, "beat($1)")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := fresh(t)
			r := serverstest.NewRelay(t, d.pg.Addr())
			url := d.through(r)
			c, other := openWith(t, url, long, nil), openWith(t, url, long, nil)
			third := openWith(t, d.url(), long, nil)
			electiontest.Win(t, c, "orders", "a")
			s := current(c)
			electiontest.Stand(t, other, "orders", "b")
			waiting := current(other)
			r.Hold() // now nobody looks but this test
			d.expired(t, s)
			// A call that was on its way when the relay held may have the row locked; until it
			// ends, a look passes nobody over.
			electiontest.Eventually(t, `"b" leads`, func() bool {
				leader, err := look(third, waiting)
				must.Report(t, err)
				return leader == "b"
			})
			d.sql(t, `update ringfence_private.lease
			             set expires_at = clock_timestamp() + interval '1 hour'`) // the clock
			if err := beat(t, d, s); !errors.Is(err, errOver) {
				t.Errorf("the session lives again: %v", err)
			}
			_, leaders, err := third.Leaders(t.Context(), "orders")
			if err != nil || leaders[0].Holder != "b" {
				t.Errorf("%v leads, %v", leaders, err)
			}
			r.Pass()
		})
	}
}

// first returns "b" if a look of its session finds it with nobody ahead.
func first(t *testing.T, c *Coordinator, b *session, call string) (string, error) {
	found, err := once(t.Context(), c.calls, long,
		func(ctx context.Context, conn *pgx.Conn) (positions, error) {
			return readPlaces(ctx, conn, call, b.id)
		})
	for _, at := range found {
		if at.ahead == 0 {
			return "b", err
		}
	}
	return "", err
}

// A request may arrive after its sender has given up. The candidate that it makes belongs to
// nobody, and its session is renewed for the sender's other candidates.
func TestAnEnrolmentThatArrivesLateHoldsUpNobody(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	late := newDelay()
	c := openWith(t, d.url(), 4*time.Second, late.config)
	keeper := electiontest.Win(t, c, "stock", "a") // so that the session lives on
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	late.next.Store(true)
	go func() {
		_, err := c.Campaign(ctx, "orders", "late")
		ended <- err
	}()
	<-late.sent
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the campaign ended with %v", err)
	}
	close(late.arrive)
	<-late.arrived
	electiontest.Eventually(t, "the server has taken the enrolment, or this proves nothing",
		func() bool {
			return d.number(t, "select coalesce(max(last), 0) from ringfence_private.election "+
				"where resource = 'orders'") > 0
		})
	other := openWith(t, d.url(), long, nil)
	if term := electiontest.Win(t, other, "orders", "b"); term.State() != fence.Active {
		t.Error("nobody leads")
	}
	electiontest.Queued(t, other, "orders", 1)
	if keeper.State() == fence.Lost {
		t.Errorf("the other term is lost: %v", context.Cause(keeper.Context()))
	}
}

// Were a lower token committed after a higher one, its candidate would push a leader aside.
func TestTokensAreCommittedInTheirOrder(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	electiontest.Win(t, c, "stock", "a")
	s := current(c)
	connect := func(options string) *pgx.Conn {
		return pgtest.Connect(t, d.url()+options)
	}
	slow, err := connect("").Begin(t.Context())
	must.Succeed(t, err)
	enrol := "select ringfence.enrol($1, $2, 'orders', 'x')"
	_, err = slow.Exec(t.Context(), enrol, s.id, "slow")
	must.Succeed(t, err)
	var locked *pgconn.PgError
	_, err = connect("&lock_timeout=100ms").Exec(t.Context(), enrol, s.id, "fast")
	if !errors.As(err, &locked) || locked.Code != "55P03" {
		t.Errorf("a second enrolment does not wait for the first: %v", err)
	}
	must.Succeed(t, slow.Commit(t.Context()))
}

// A reply may be old when it arrives.
func TestADeadlineCountsFromTheStartOfTheHeartbeat(t *testing.T) {
	t.Parallel()
	const timeout = 20 * time.Second
	d := fresh(t)
	r := serverstest.NewRelay(t, d.pg.Addr())
	c := openWith(t, d.through(r), timeout, nil)
	term := electiontest.Win(t, c, "orders", "a")
	s := current(c)
	first := term.Deadline()
	electiontest.Eventually(t, "a heartbeat confirms the term", func() bool {
		return term.Deadline().After(first)
	})
	r.Hold()
	first = term.Deadline()
	s.BeatNow() // the reply to this one is held back
	time.Sleep(2 * time.Second)
	passed := time.Now()
	r.Pass()
	electiontest.Eventually(t, "the term is confirmed", func() bool {
		return term.Deadline().After(first)
	})
	if d := term.Deadline(); !d.Before(passed.Add(timeout)) {
		t.Errorf("the deadline is %s later than it may be", d.Sub(passed.Add(timeout)))
	}
}

func TestAnAcknowledgementAfterTheSessionIsRefused(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	r := serverstest.NewRelay(t, d.pg.Addr())
	c := openWith(t, d.through(r), long, nil)
	term := electiontest.Win(t, c, "orders", "a")
	s := current(c)
	id := s.Enrolled()[0].Key
	r.Hold()
	d.expired(t, s)
	acknowledged, err := once(t.Context(), openWith(t, d.url(), long, nil).calls, long,
		func(ctx context.Context, conn *pgx.Conn) (there bool, err error) {
			call := "acknowledge($1, $2)"
			return there, row(ctx, conn, []any{&there}, call, id, int64(term.Token()))
		})
	if acknowledged || err != nil {
		t.Errorf("acknowledged: %v, %v", acknowledged, err)
	}
	r.Pass()
	if err := term.Acknowledge(t.Context()); !errors.Is(err, fence.ErrExpired) {
		t.Errorf("the client is told %v", err)
	}
}

// A notice wakes every connection that listens in the database, so a thousand enrolments in a
// hundred processes would wake a hundred thousand.
func TestACandidateThatWaitsSendsNoNotice(t *testing.T) {
	t.Parallel()
	const candidates = 20
	d := fresh(t)
	c, crowd := openWith(t, d.url(), long, nil), openWith(t, d.url(), long, nil)
	stock := electiontest.Win(t, c, "stock", "a")
	orders := electiontest.Win(t, c, "orders", "leader")
	electiontest.Win(t, crowd, "bills", "b") // so that its session exists
	conn := pgtest.Connect(t, d.url())
	for _, channel := range []string{
		sessionChannel + current(c).id, sessionChannel + current(crowd).id,
		electionChannel + "orders", electionChannel + "stock", electionChannel + "parts",
		electionChannel + "first", electionChannel + "second",
	} {
		_, err := conn.Exec(t.Context(), "listen "+channel)
		must.Succeed(t, err)
	}
	next := func() (channel string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		n, err := conn.WaitForNotification(ctx)
		must.Succeed(t, err)
		return n.Channel
	}
	// Notices are sent after the commit, by one call after another: those of the elections above come
	// with the first of these two at the latest.
	for _, r := range []fence.Resource{"first", "second"} {
		electiontest.Win(t, c, r, "a")
		for next() != electionChannel+string(r) {
		}
	}
	for i := range candidates {
		electiontest.Stand(t, crowd, "orders", fmt.Sprint(i))
	}
	told := func(r fence.Resource) {
		t.Helper()
		if channel := next(); channel != electionChannel+string(r) {
			t.Errorf("the notice is in %s; want one of %s", channel, r)
		}
	}
	must.Succeed(t, stock.Acknowledge(t.Context()))
	told("stock")
	electiontest.Win(t, c, "parts", "a")
	told("parts")
	d.sql(t, "delete from ringfence_private.candidate where token = $1", int64(orders.Token()))
	told("orders")
}

// They would wait for each other at the server anyway, on connections that other calls need.
func TestEnrolmentsThatWaitForAnElectionTakeOneConnection(t *testing.T) {
	t.Parallel()
	const candidates = 3 * maxCalls
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	electiontest.Win(t, c, "orders", "leader")
	conn := pgtest.Connect(t, d.url())
	slow, err := conn.Begin(t.Context())
	must.Succeed(t, err)
	_, err = slow.Exec(t.Context(),
		"select from ringfence_private.election where resource = 'orders' for update")
	must.Succeed(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i := range candidates {
		all.Go(func() { _, _ = c.Campaign(ctx, "orders", fmt.Sprint(i)) })
	}
	electiontest.Eventually(t, "all enrol", func() bool {
		return c.enrolling.waiting("orders") == candidates
	})
	const waits = `select count(*) from pg_stat_activity where datname = current_database()
	                  and wait_event_type = 'Lock' and query like '%nominate(%'`
	electiontest.Eventually(t, "one enrolment waits", func() bool { return d.number(t, waits) == 1 })
	if term := electiontest.Win(t, c, "stock", "a"); term.State() != fence.Active {
		t.Errorf("the term of another election is %s", term.State())
	}
	if n := d.number(t, waits); n > 1 { // none: the call was given up, and another one begins
		t.Errorf("%d enrolments wait at the server", n)
	}
	must.Succeed(t, slow.Rollback(t.Context()))
	electiontest.Queued(t, c, "orders", candidates+1)
}

// waiting counts those who have the turn in an election or wait for it.
func (t *turns) waiting(r fence.Resource) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queue[r]; q != nil {
		return q.in
	}
	return 0
}
