package endtoend

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/store/pgstore"
	"github.com/ringfence/ringfence/store/redisstore"
)

// An old leader is paused in open sessions. The restored coordinator gives its number to another
// candidate, whose sessions show nothing but this number.
func TestNobodyWritesBesideAPausedLeaderUnderItsNumber(t *testing.T) {
	t.Parallel()
	onEveryRestorable(t, func(t *testing.T, r *restorable) {
		s := newStackWith(t, r.URL)
		g := s.guard()
		r.backUp(s.ctx)
		co, first := r.win(s.ctx, "paused")
		old := s.sessions(g, first.Claim())
		must.Succeed(t, old.write("paused"))
		must.Succeed(t, co.Close()) // the coordinator forgets it anyway

		co, second := r.namesake(s.ctx, first.Token())
		for name, write := range s.unguarded() {
			if err := write(second.Claim(), "namesake"); !errors.Is(err, fence.ErrOtherIssuer) &&
				!errors.Is(err, fence.ErrNotRaised) { // Redis: it would have to raise the mark
				t.Errorf("%s of another candidate with the mark's number: %v", name, err)
			}
		}
		s.refusesAll(s.guard(), co, second.Claim(), "namesake") // a guard that remembers no mark
		must.Succeed(t, old.write("paused"))
		s.holdsOnly("paused", "paused")
		for name, write := range s.unguarded() { // it was rolled back, so nothing of it counts
			if err := write(first.Claim(), "late"); !errors.Is(err, fence.ErrOtherIssuer) {
				t.Errorf("%s of the paused leader: %v", name, err)
			}
		}
		s.refusesAll(g, co, second.Claim(), "namesake")
		g.kill()
		g.start()
		s.refusesAll(g, co, second.Claim(), "namesake")

		must.Succeed(t, second.Resign(s.ctx))
		s.adopt()
		third := campaign(s.ctx, t, co, "orders", "adopted")
		must.Succeed(t, s.sessions(g, third.Claim()).write("adopted"))
		if old.write("paused") == nil {
			t.Error("the paused leader writes after the adoption")
		}
		s.holdsOnly("paused", "paused", "adopted")
		for name, write := range s.unguarded() { // it is the claim that was refused, and not the call
			if err := write(third.Claim(), "adopted"); err != nil {
				t.Errorf("%s after the adoption: %v", name, err)
			}
			if err := write(first.Claim(), "late"); !errors.Is(err, fence.ErrOtherIssuer) {
				t.Errorf("%s of the paused leader after the adoption: %v", name, err)
			}
		}
	})
}

// The loop of docs/leader.md tries again at once. Each try uses up a number.
func TestALeaderOfARestoredCoordinatorThatTriesAgainNeverLeads(t *testing.T) {
	t.Parallel()
	onEveryRestorable(t, func(t *testing.T, r *restorable) {
		s := newStackWith(t, r.URL)
		guards := []*guard{s.guard(), s.guard()}
		r.backUp(s.ctx)
		co := r.open(s.ctx)
		mark, err := s.lead(guards[0], co)
		must.Succeed(t, err)
		must.Succeed(t, co.Close())
		must.Succeed(t, r.Restore(s.ctx))

		co = r.open(s.ctx)
		const each = 3 // tries: with the first numbers, up to the mark, above it
		for try := range 3 * each {
			switch try {
			case each:
				r.countTo(s.ctx, mark-2)
			case 2 * each:
				guards[0].kill()
				guards[0].start()
			}
			token, err := s.lead(guards[try%2], co)
			if !errors.Is(err, fence.ErrOtherIssuer) {
				t.Fatalf("try %d: token %s, the mark is %s: %v", try+1, token, mark, err)
			}
			if last := try == 3*each-1; last && token <= mark {
				t.Errorf("the last token was %s, the mark is %s", token, mark)
			}
		}
		s.adopt()
		for _, g := range guards {
			if _, err := s.lead(g, co); err != nil {
				t.Errorf("after the adoption: %v", err)
			}
		}
	})
}

// Documents have no mark: the coordinator itself compares whose term it is.
func TestADocumentIsNotChangedUnderANumberThatAnotherCandidateHas(t *testing.T) {
	t.Parallel()
	onEveryRestorable(t, func(t *testing.T, r *restorable) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		r.backUp(ctx)
		co, first := r.win(ctx, "paused")
		must.Succeed(t, put(ctx, co, first.Claim()))
		must.Succeed(t, co.Close())

		co, second := r.namesake(ctx, first.Token())
		if err := put(ctx, co, first.Claim()); !errors.Is(err, fence.ErrStale) {
			t.Errorf("the paused leader's change: %v", err)
		}
		if err := put(ctx, r.open(ctx), first.Claim()); !errors.Is(err, fence.ErrStale) {
			t.Errorf("the paused leader's change, in another process: %v", err)
		}
		must.Succeed(t, put(ctx, co, second.Claim()))
	})
}

// put creates a document while a claim leads.
func put(ctx context.Context, co documents.Coordinator, c fence.Claim) error {
	_, err := co.Documents().Change(ctx, documents.Change{
		While:  []fence.Claim{c},
		Writes: []documents.Write{documents.Create("restored/by", []byte(c.Holder))},
	})
	return err
}

// pair is a session in each database under one token.
type pair struct {
	s     *stack
	token fence.Token
	pg    *pgx.Conn
	redis *goredis.Client
}

func (s *stack) sessions(g *guard, c fence.Claim) *pair {
	s.t.Helper()
	p := &pair{s, c.Token, g.mustPostgres(c.Token), g.redisClient(c.Token)}
	must.Succeed(s.t, p.redis.Ping(s.ctx).Err())
	return p
}

// write adds a note to both ledgers, and fails if one of them takes it not.
func (p *pair) write(note string) error {
	_, err := p.pg.Exec(p.s.ctx, insert, p.token, note)
	return errors.Join(err, p.redis.RPush(p.s.ctx, "ledger", note).Err())
}

// refusesAll checks that a claim is refused with RF004 wherever it may raise a mark: in sessions
// that a guard admits, and by those that raise it without a guard. Where it gets in, it writes a
// note.
func (s *stack) refusesAll(g *guard, co elector.Observer, c fence.Claim, note string) {
	s.t.Helper()
	pg, db := g.address("postgres"), g.address("redis")
	for _, way := range []struct {
		name string
		in   func() error
	}{
		{"a session in Postgres", func() error {
			conn, err := g.postgres(c.Token)
			if err == nil {
				_, err = conn.Exec(s.ctx, insert, c.Token, note)
			}
			return pgstore.Explain(err, c)
		}},
		{"a session in Redis", func() error {
			return redisstore.Explain(g.redisClient(c.Token).RPush(s.ctx, "ledger", note).Err(), c)
		}},
		{"a raise by Postgres's guard", func() error {
			return pgstore.NewRaiser(pg, nil).Raise(s.ctx, c)
		}},
		{"a raise by Redis's guard", func() error {
			return redisstore.NewRaiser(db, nil).Raise(s.ctx, c)
		}},
		{"a raise in Postgres", func() error {
			r := pgstore.NewRaiser(s.pg.URL("postgres", "postgres"), co)
			defer r.Close()
			return r.Raise(s.ctx, c)
		}},
		{"a raise in Redis", func() error {
			r := redisstore.NewRaiser(s.redis.URL(), co)
			defer r.Close()
			return r.Raise(s.ctx, c)
		}},
	} {
		if err := way.in(); !errors.Is(err, fence.ErrOtherIssuer) {
			s.t.Errorf("%s of %s: %v", way.name, c, err)
		}
	}
}

func (g *guard) address(of string) string {
	if of == "redis" {
		return "redis://" + g.redis
	}
	return "postgres://app@" + g.pg + "/postgres"
}

// lead is one round of the loop of docs/leader.md, through a guard. It returns the term's token.
func (s *stack) lead(g *guard, co fence.Elector) (token fence.Token, err error) {
	err = fence.Lead{
		Elector: co, Resource: "orders", Holder: "loop",
		Stores: []fence.Raiser{
			pgstore.NewRaiser(g.address("postgres"), nil), redisstore.NewRaiser(g.address("redis"), nil),
		},
	}.Run(s.ctx, func(_ context.Context, term *fence.Term) error {
		token = term.Token()
		return nil
	})
	if r, refused := errors.AsType[*fence.Refusal](err); refused {
		token = r.Claim.Token
	}
	return token, err
}

func (s *stack) adopt() {
	s.t.Helper()
	out, err := s.program("guard", "adopt", "--new-issuer", "orders").CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

// unguarded returns what writes under a claim without a guard and without a session. None raises a
// mark.
func (s *stack) unguarded() map[string]func(c fence.Claim, note string) error {
	s.t.Helper()
	pool, err := pgxpool.New(s.ctx, s.pg.URL("postgres", "postgres"))
	must.Succeed(s.t, err)
	s.t.Cleanup(pool.Close)
	db := goredis.NewClient(&goredis.Options{Addr: s.redis.Addr()})
	s.t.Cleanup(func() { _ = db.Close() })
	journal := pgjournal.New(pool, pgjournal.Options{})
	s.t.Cleanup(journal.Close)
	return map[string]func(fence.Claim, string) error{
		"a transaction": func(c fence.Claim, note string) error {
			tx, err := pgstore.Begin(s.ctx, pool, c, pgx.TxOptions{})
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(s.ctx) }()
			if _, err := tx.Exec(s.ctx, insert, c.Token, note); err != nil {
				return pgstore.Explain(err, c)
			}
			return tx.Commit(s.ctx)
		},
		"an attached session": func(c fence.Claim, _ string) error { return s.attach(c) },
		"a journal's raise":   func(c fence.Claim, _ string) error { return journal.Raise(s.ctx, c) },
		"the reading of a checkpoint": func(c fence.Claim, _ string) error {
			_, _, err := journal.TakeOver(s.ctx, c, "nightly", 0)
			return err
		},
		"a checkpoint": func(c fence.Claim, note string) error {
			return journal.Publish(s.ctx, c, checkpoint.Checkpoint{
				Task: checkpoint.Name(note), Resource: c.Resource, Version: 1,
			})
		},
		"the end of a checkpoint": func(c fence.Claim, _ string) error {
			return journal.Forget(s.ctx, c, "nightly")
		},
		"a script in Redis": func(c fence.Claim, note string) error {
			_, err := new(redisstore.Tx).Do("RPUSH", "ledger", note).Exec(s.ctx, db, c)
			return err
		},
	}
}

// attach attaches a new connection of an application to a claim.
func (s *stack) attach(c fence.Claim) error {
	conn, err := pgx.Connect(s.ctx, s.pg.URL("app", "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(s.ctx))
	if attached, err := pgmarks.Attach(s.ctx, conn, c); err != nil || attached {
		return err
	}
	return errors.New("the session could not be attached")
}
