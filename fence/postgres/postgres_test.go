package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

const long = time.Minute // a session timeout that no test waits for

// win campaigns with a limit.
func win(t *testing.T, c *Coordinator, r fence.Resource, holder string) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	term, err := c.Campaign(ctx, r, holder)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// stand starts a campaign that ends with the test, and waits until its candidate is listed.
func stand(
	t *testing.T, c *Coordinator, r fence.Resource, holder string,
) (won <-chan *fence.Term) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	winner, done := make(chan *fence.Term, 1), make(chan struct{})
	go func() {
		defer close(done)
		if term, err := c.Campaign(ctx, r, holder); err == nil {
			winner <- term
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, holder+" is listed", func() bool {
		queue, err := c.Candidates(t.Context(), r)
		for _, one := range queue {
			if one.Holder == holder {
				return true
			}
		}
		return err != nil
	})
	return winner
}

// next waits for the winner.
func next(t *testing.T, won <-chan *fence.Term) *fence.Term {
	t.Helper()
	select {
	case term := <-won:
		return term
	case <-time.After(60 * time.Second):
		t.Fatal("nobody leads")
		return nil
	}
}

// ends waits until a term is lost, and checks why.
func ends(t *testing.T, term *fence.Term, cause error) {
	t.Helper()
	select {
	case <-term.Context().Done():
	case <-time.After(30 * time.Second):
		t.Fatalf("%v is %v", term.Claim(), term.State())
	}
	if got := context.Cause(term.Context()); !errors.Is(got, cause) {
		t.Errorf("%v was lost with %v, not %v", term.Claim(), got, cause)
	}
}

// queued waits until an election has this many candidates.
func queued(t *testing.T, c *Coordinator, r fence.Resource, want int) []fence.Candidate {
	t.Helper()
	var last []fence.Candidate
	eventually(t, fmt.Sprintf("%d candidates", want), func() bool {
		var err error
		last, err = c.Candidates(t.Context(), r)
		return err == nil && len(last) == want
	})
	return last
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to this: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks, not for an event
	}
}

func wantSetupError(t *testing.T, err error, says ...string) {
	t.Helper()
	var setup *fence.SetupError
	if !errors.As(err, &setup) {
		t.Fatalf("%v is no SetupError", err)
	}
	for _, s := range says {
		if !strings.Contains(setup.Error(), s) {
			t.Errorf("the error does not say %q: %v", s, setup)
		}
	}
}

func TestADeathInALargeElectionWakesOneCandidate(t *testing.T) {
	t.Parallel()
	const candidates = 300
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	leader := win(t, c, "orders", "leader")
	var mu sync.Mutex
	woken := map[string]int{}
	crowd := openWith(t, d.url(), long, nil)
	crowd.woken = func(_ fence.Resource, holder string) { mu.Lock(); woken[holder]++; mu.Unlock() }
	ctx, stop := context.WithCancel(t.Context())
	won := make(chan *fence.Term, candidates)
	var all sync.WaitGroup
	for i := range candidates {
		all.Go(func() {
			if term, err := crowd.Campaign(ctx, "orders", fmt.Sprint(i)); err == nil {
				won <- term
			}
		})
	}
	defer all.Wait()
	defer stop()
	queue := queued(t, c, "orders", candidates+1)
	eventually(t, "the crowd listens", func() bool { return current(crowd).notices.listening() })
	if err := leader.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if term := <-won; term.Token() != queue[1].Token {
		t.Errorf("%s leads, and %v was next", term.Token(), queue[1])
	}
	mu.Lock()
	defer mu.Unlock()
	if len(woken) != 1 || woken[queue[1].Holder] != 1 {
		t.Errorf("woken: %v", woken)
	}
}

func TestWatchingAndWaitingShareOneConnectionThatListens(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	var log bytes.Buffer // read it after Close
	c, err := Open(t.Context(), d.url(), Options{
		SessionTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var watching sync.WaitGroup
	for i := range 10 {
		seen := make(chan struct{})
		watching.Go(func() {
			var once sync.Once
			_ = c.Watch(ctx, fence.Resource(fmt.Sprintf("r%d", i)), func([]fence.Candidate) error {
				once.Do(func() { close(seen) })
				return nil
			})
		})
		<-seen
		win(t, c, fence.Resource(fmt.Sprintf("r%d", i)), "a")
	}
	const listening = `select count(*) from pg_stat_activity
	                    where datname = current_database() and query ilike 'listen%'`
	eventually(t, "one connection listens", func() bool { return d.number(t, listening) == 1 })
	stop()
	watching.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "cannot listen") {
		t.Errorf("the connection broke:\n%s", log.String())
	}
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
		all.Go(func() { terms[i] = win(t, c, resources[i], "host") })
	}
	all.Wait()
	if n := d.number(t, "select count(*) from ringfence_elections.session"); n != 1 {
		t.Errorf("%d sessions", n)
	}
	first := make([]time.Time, elections)
	for i, term := range terms {
		first[i] = term.Deadline()
	}
	for i, term := range terms {
		eventually(t, "every term is confirmed by the one session", func() bool {
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
		`update ringfence_elections.session
		    set expires_at = clock_timestamp() - interval '1 ms' where id = $1`, s.id)
}

// beat sends one heartbeat of a session, as a delayed packet would.
func beat(t *testing.T, d database, s *session) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.url())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = readPlaces(t.Context(), conn, "beat($1)", s.id)
	return err
}

func TestALateHeartbeatRevivesNothing(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	r := serverstest.NewRelay(t, d.pg.Addr())
	c := openWith(t, d.through(r), long, nil)
	old := win(t, c, "orders", "a")
	s := current(c)
	r.Hold()
	d.expired(t, s)
	if err := beat(t, d, s); !errors.Is(err, errOver) {
		t.Errorf("a heartbeat after the end of the session: %v", err)
	}
	other := openWith(t, d.url(), long, nil)
	newer := win(t, other, "orders", "b")
	if newer.Token() <= old.Token() {
		t.Errorf("%s follows %s", newer.Token(), old.Token())
	}
	if err := beat(t, d, s); !errors.Is(err, errOver) {
		t.Errorf("a heartbeat after the next one leads: %v", err)
	}
	r.Pass()
	ends(t, old, fence.ErrExpired)
	if queue := queued(t, other, "orders", 1); queue[0].Token != newer.Token() {
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
			return first(t, third, next, "look($1, null)")
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
			win(t, c, "orders", "a")
			s := current(c)
			stand(t, other, "orders", "b")
			waiting := current(other)
			r.Hold() // now nobody looks but this test
			d.expired(t, s)
			if leader, err := look(third, waiting); leader != "b" || err != nil {
				t.Errorf("%q leads, %v", leader, err)
			}
			d.sql(t, `update ringfence_elections.session
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
		func(ctx context.Context, conn *pgx.Conn) (places, error) {
			return readPlaces(ctx, conn, call, b.id)
		})
	for _, at := range found.at {
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
	keeper := win(t, c, "stock", "a") // so that the session lives on
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
	eventually(t, "the server has taken the enrolment, or this proves nothing", func() bool {
		return d.number(t, "select coalesce(max(last), 0) from ringfence_elections.election "+
			"where resource = 'orders'") > 0
	})
	other := openWith(t, d.url(), long, nil)
	if term := win(t, other, "orders", "b"); term.State() != fence.Active {
		t.Error("nobody leads")
	}
	queued(t, other, "orders", 1)
	if keeper.State() == fence.Lost {
		t.Errorf("the other term is lost: %v", context.Cause(keeper.Context()))
	}
}

// Were a lower token committed after a higher one, its candidate would push a leader aside.
func TestTokensAreCommittedInTheirOrder(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	win(t, c, "stock", "a")
	s := current(c)
	connect := func(options string) *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), d.url()+options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
		return conn
	}
	slow, err := connect("").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enrol := "select ringfence_elections.enrol($1, $2, 'orders', 'x')"
	if _, err := slow.Exec(t.Context(), enrol, s.id, "slow"); err != nil {
		t.Fatal(err)
	}
	var locked *pgconn.PgError
	_, err = connect("&lock_timeout=100ms").Exec(t.Context(), enrol, s.id, "fast")
	if !errors.As(err, &locked) || locked.Code != "55P03" {
		t.Errorf("a second enrolment does not wait for the first: %v", err)
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// A reply may be old when it arrives.
func TestADeadlineCountsFromTheStartOfTheHeartbeat(t *testing.T) {
	t.Parallel()
	const timeout = 20 * time.Second
	d := fresh(t)
	r := serverstest.NewRelay(t, d.pg.Addr())
	c := openWith(t, d.through(r), timeout, nil)
	term := win(t, c, "orders", "a")
	s := current(c)
	first := term.Deadline()
	eventually(t, "a heartbeat confirms the term", func() bool {
		return term.Deadline().After(first)
	})
	r.Hold()
	first = term.Deadline()
	s.Hurry() // the reply to this one is held back
	time.Sleep(2 * time.Second)
	passed := time.Now()
	r.Pass()
	eventually(t, "the term is confirmed", func() bool { return term.Deadline().After(first) })
	if d := term.Deadline(); !d.Before(passed.Add(timeout)) {
		t.Errorf("the deadline is %s later than it may be", d.Sub(passed.Add(timeout)))
	}
}

func TestALateRenewalOfTheIssuerReplacesNoNewerOne(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	before, err := c.Issuer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := c.RenewIssuer(t.Context())
	if err != nil || renewed == before {
		t.Fatal(renewed, err)
	}
	d.sql(t, "select ringfence_elections.renew_issuer($1)", string(before)) // sent twice
	if now, err := c.Issuer(t.Context()); now != renewed || err != nil {
		t.Errorf("the issuer was renewed to %s and is %s, %v", renewed, now, err)
	}
}

func TestAnAcknowledgementAfterTheSessionIsRefused(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	r := serverstest.NewRelay(t, d.pg.Addr())
	c := openWith(t, d.through(r), long, nil)
	term := win(t, c, "orders", "a")
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

func TestARoleWithoutPrivilegesIsToldWhatAnOperatorRuns(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	role := "plain_" + d.name
	d.sql(t, "create role "+role+" login")
	t.Cleanup(func() {
		d.sql(t, "drop owned by "+role)
		d.sql(t, "drop role "+role)
	})
	url := d.pg.URL(role, d.name)
	_, err := Open(t.Context(), url, Options{})
	wantSetupError(t, err, "permission denied", "Install")
	if err := Install(t.Context(), d.url()); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), url, Options{})
	wantSetupError(t, err, "permission denied", "Install")
	if err := Install(t.Context(), d.url(), role); err != nil {
		t.Fatal(err)
	}
	c := openWith(t, url, long, nil)
	if err := win(t, c, "orders", "a").Acknowledge(t.Context()); err != nil {
		t.Error(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "delete from ringfence_elections.candidate"); err == nil {
		t.Error("the role deletes candidates by hand")
	}
}

func TestARoleThatMayCreateASchemaNeedsNoOperator(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	role := "owner_" + d.name
	d.sql(t, "create role "+role+" login")
	d.sql(t, "grant create on database "+d.name+" to "+role)
	t.Cleanup(func() {
		d.sql(t, "drop owned by "+role)
		d.sql(t, "drop role "+role)
	})
	var all sync.WaitGroup
	for range 4 { // at once
		all.Go(func() {
			c, err := Open(t.Context(), d.pg.URL(role, d.name), Options{SessionTimeout: long})
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	all.Wait()
	win(t, openWith(t, d.pg.URL(role, d.name), long, nil), "orders", "a")
	if err := Install(t.Context(), d.url(), role); err != nil { // as an upgrade would
		t.Error(err)
	}
}

func TestASchemaThatIsWipedIsAnotherIssuer(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), 4*time.Second, nil)
	before, err := c.Issuer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := win(t, c, "orders", "a")
	d.sql(t, "drop schema ringfence_elections cascade")
	again := win(t, c, "orders", "b")
	ends(t, old, fence.ErrExpired)
	after, err := c.Issuer(t.Context())
	if err != nil || after == before || again.Claim().Issuer != after {
		t.Errorf("the issuer was %s and is %s, the term's is %s, %v",
			before, after, again.Claim().Issuer, err)
	}
}

func TestAnAnswerIsDurableWhateverTheDefaultsAre(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	term := win(t, c, "orders", "a")
	s := current(c)
	conn, err := pgx.Connect(t.Context(), d.url()+"&synchronous_commit=off")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	token := fmt.Sprint(int64(term.Token()))
	for _, call := range []string{
		"select ringfence_elections.open('x', 1000)", "select ringfence_elections.close('x')",
		"select ringfence_elections.beat('" + s.id + "')",
		"select ringfence_elections.look('" + s.id + "', null)",
		"select ringfence_elections.enrol('" + s.id + "', 'x', 'stock', 'a')",
		"select ringfence_elections.leaders('{orders}')",
		"select ringfence_elections.candidates('orders')",
		"select ringfence_elections.acknowledge('x', 1)",
		"select ringfence_elections.leave('" + s.id + "', '{x}')",
		"select ringfence_elections.depose('orders', " + token + ")",
		"select ringfence_elections.renew_issuer('')",
		"delete from ringfence_elections.candidate", "delete from ringfence_elections.session",
	} {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		var now string
		err = tx.QueryRow(t.Context(), "show synchronous_commit").Scan(&now)
		if err != nil || now != "on" {
			t.Errorf("%s: synchronous_commit is %s, %v", call, now, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnotherIsolationLevelIsRefused(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	d.sql(t, "alter database "+d.name+" set default_transaction_isolation = 'serializable'")
	_, err := Open(t.Context(), d.url()+"&listen=off", Options{})
	wantSetupError(t, err, "READ COMMITTED", "ALTER ROLE")
	win(t, openWith(t, d.url(), long, nil), "orders", "a") // without a pooler we set it
}

func TestACounterThatIsUsedUpOrSetBackGivesNoToken(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	term := win(t, c, "orders", "a")
	for _, to := range []string{"1, false", "4294967295"} {
		d.sql(t, "select setval('ringfence_elections.counter', "+to+")")
		_, err := c.Campaign(t.Context(), "orders", "b")
		wantSetupError(t, err, "counter")
	}
	_, leaders, err := c.Leaders(t.Context(), "orders")
	if err != nil || leaders[0].Token != term.Token() {
		t.Errorf("%v leads, %v", leaders, err)
	}
}

func TestAPoolerInTransactionModeIsUsedWithoutListening(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	b := pooler(t, d.pg)
	_, err := Open(t.Context(), b.URL("postgres", d.name), Options{})
	wantSetupError(t, err, "listen=off")
	url := b.URL("postgres", d.name) + "&listen=off"
	var clients [2]*Coordinator
	for i := range clients {
		clients[i] = openWith(t, url, 6*time.Second, nil)
	}
	var last fence.Token
	for i := range 6 {
		term := win(t, clients[i%2], "orders", "a")
		won := stand(t, clients[(i+1)%2], "orders", "b")
		if err := term.Acknowledge(t.Context()); err != nil {
			t.Error(err)
		}
		if err := term.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		successor := next(t, won)
		if term.Token() <= last || successor.Token() <= term.Token() {
			t.Errorf("%s, %s and %s", last, term.Token(), successor.Token())
		}
		last = successor.Token()
		if err := successor.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	}
	term := win(t, clients[0], "orders", "a")
	first := term.Deadline()
	eventually(t, "the term is confirmed", func() bool { return term.Deadline().After(first) })
}

func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	host, port, _ := net.SplitHostPort(pg.Addr())
	for _, url := range []string{
		"postgres://app:secret@" + host + ":" + port + "/nowhere?sslmode=disable",
		"postgres://app:secret@" + host + ":" + port + "/nowhere?listen=perhaps",
		"postgres://app:secret@" + host + ":" + port + "/nowhere?sslmode=perhaps",
		"postgres://app:secret@" + host + ":nowhere/x", "mysql://app:secret@" + host,
		"postgres://app:secret@" + host + ":" + port + "/x?a=%zz",
	} {
		c, err := Open(t.Context(), url, Options{})
		if err == nil {
			c.Close()
			t.Errorf("%s was opened", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
		if errors.Is(err, ErrUnreachable) {
			t.Errorf("%v was tried again", err)
		}
	}
	address := serverstest.FreeAddresses(t, 1)[0]
	_, err := Open(t.Context(), "postgres://app:secret@"+address+"/shop",
		Options{SessionTimeout: time.Second})
	if !errors.Is(err, ErrUnreachable) {
		t.Fatalf("nobody listens: %v", err)
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

func TestATermOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	d := database{serverstest.Postgres(t, servers.PostgresOptions{}), "postgres"}
	c := openWith(t, d.url(), long, nil)
	term := win(t, c, "orders", "a")
	won := stand(t, openWith(t, d.url(), long, nil), "orders", "b")
	if err := d.pg.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the term is suspended", func() bool { return term.State() == fence.Suspended })
	if err := d.pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the term is active", func() bool { return term.State() == fence.Active })
	if err := term.Resign(t.Context()); err != nil {
		t.Error(err)
	}
	if newer := next(t, won); newer.Token() <= term.Token() {
		t.Errorf("%s follows %s", newer.Token(), term.Token())
	}
}
