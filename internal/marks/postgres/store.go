package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Options of a Store. The zero value is right for a guard.
type Options struct {
	// Connections is the most control connections, 4 when zero. Each admission holds one for one short statement.
	Connections int32
	// AllowPrepared serves although max_prepared_transactions is above 0: a prepared transaction outlives its session,
	// so a deposed leader's can still be committed by anybody. Only for databases where nobody uses them.
	AllowPrepared bool
}

// Store keeps marks and sessions in the schema ringfence of the database itself. Its methods may be called from any
// goroutine and, like everything behind marks.Store, from any number of processes.
type Store struct {
	pool  *pgxpool.Pool
	cfg   *pgx.ConnConfig
	stop  context.CancelFunc
	swept sync.WaitGroup
}

var (
	_ marks.Store = (*Store)(nil)
	_ marks.Admin = (*Store)(nil)
)

// Open prepares a store. It dials nothing yet: Probe tells whether the store can be used. Every control connection is
// probed before it serves, so a server that comes back different is noticed without a restart. The error is a URL that
// cannot be read.
func Open(url string, o Options) (*Store, error) {
	cfg, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	pc.ConnConfig = cfg
	pc.MaxConns = o.Connections
	if pc.MaxConns == 0 {
		pc.MaxConns = 4
	}
	pc.MaxConnIdleTime = time.Minute
	pc.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { return probe(ctx, c, o) }
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{pool: pool, cfg: cfg, stop: stop}
	s.swept.Go(func() { s.sweep(ctx) })
	return s, nil
}

// Close ends the control connections and waits for the sweep.
func (s *Store) Close() {
	s.stop()
	s.swept.Wait()
	s.pool.Close()
}

// Database is the name of the database that the marks are in and that this store guards.
func (s *Store) Database() string { return s.cfg.Database }

// Register is marks.Store's: one statement, one transaction. A session of another server than the control connection's
// sends the control connections to be dialled anew, and is tried once more: behind a balancer they may be left over from
// before it was turned.
func (s *Store) Register(ctx context.Context, sess marks.Session, claims []fence.Claim) (marks.Registration, error) {
	st, err := s.register(ctx, sess, claims)
	if errors.Is(err, errElsewhere) && s.moved(ctx, sess.Run) {
		s.pool.Reset()
		st, err = s.register(ctx, sess, claims)
	}
	return st, err
}

func (s *Store) register(ctx context.Context, sess marks.Session, claims []fence.Claim) (marks.Registration, error) {
	start, err := parseBirth(sess.Birth)
	if err != nil {
		return marks.Registration{}, err
	}
	var resources []string
	var tokens []int64
	var issuer fence.Issuer
	for _, c := range claims {
		resources, tokens, issuer = append(resources, string(c.Resource)), append(tokens, int64(c.Token)), c.Issuer
	}
	var step string
	var m marks.Mark
	err = s.row(ctx, func(r pgx.Row) error {
		return scanMark(r, &m, &step, &m.Resource)
	}, `select step, resource, token, issuer, holder, coalesce(raised_at, 'epoch'), confirmed, continued, adoption
	      from ringfence.register($1, $2, $3, $4, $5, $6)`, sess.ID, start, sess.Run, resources, tokens, issuer)
	if err != nil {
		return marks.Registration{}, err
	}
	return standing(step, m, claims)
}

// standing turns the database's word into a step or a refusal, for the claim that the mark is about.
func standing(step string, m marks.Mark, claims []fence.Claim) (marks.Registration, error) {
	st := marks.Registration{Mark: m}
	for _, c := range claims {
		if c.Resource == m.Resource {
			st.Claim = c
		}
	}
	switch step {
	case "admitted":
		st.Next = marks.Admitted
	case "raise":
		st.Next = marks.MustRaise
	case "revoke":
		st.Next = marks.MustRevoke
	case "stale":
		return st, refusal.Stale(st.Claim, m.Token, m.Holder, m.Raised)
	case "issuer":
		return st, refusal.OtherIssuer(st.Claim, m.Token, m.Issuer)
	case "elsewhere":
		return st, errElsewhere
	default:
		return st, fmt.Errorf("the database answered an unknown step %q: guard and schema are of different versions", step)
	}
	return st, nil
}

// Raise is marks.Store's: a look, and one statement that compares what was seen, committed with synchronous_commit on.
func (s *Store) Raise(ctx context.Context, _ marks.Session, c fence.Claim, confirm marks.Confirm) (marks.Mark, error) {
	for {
		before, basis, err := s.look(ctx, c.Resource)
		if err != nil {
			return before, err
		}
		confirmed, err := confirm(ctx, before)
		if err != nil {
			return before, err
		}
		before, changed, err := s.raise(ctx, confirmed, basis)
		if !changed || err != nil {
			return before, err
		}
	}
}

// look reads a mark and what a raise of it depends on.
func (s *Store) look(ctx context.Context, r fence.Resource) (m marks.Mark, basis string, err error) {
	m.Resource = r
	err = s.row(ctx, func(r pgx.Row) error { return scanMark(r, &m, &basis) },
		`select basis, token, issuer, holder, coalesce(raised_at, 'epoch'), confirmed, continued, adoption from ringfence.look($1)`, r)
	return m, basis, err
}

// raise reports whether what it depends on has changed since the look: then it has done nothing.
func (s *Store) raise(ctx context.Context, c fence.Claim, basis string) (before marks.Mark, changed bool, err error) {
	var step string
	before.Resource = c.Resource
	err = s.row(ctx, func(r pgx.Row) error { return scanMark(r, &before, &step) },
		`select step, token, issuer, holder, coalesce(raised_at, 'epoch'), confirmed, continued, adoption from ringfence.raise($1, $2, $3, $4, $5)`,
		c.Resource, int64(c.Token), c.Issuer, c.Holder, basis)
	switch {
	case err != nil:
		return before, false, err
	case step == "stale":
		return before, false, refusal.Stale(c, before.Token, before.Holder, before.Raised)
	case step == "issuer":
		return before, false, refusal.OtherIssuer(c, before.Token, before.Issuer)
	}
	return before, step == "changed", nil
}

// Release is marks.Store's.
func (s *Store) Release(ctx context.Context, sess marks.Session) error {
	start, err := parseBirth(sess.Birth)
	if err != nil {
		return err
	}
	return s.exec(ctx, `select ringfence.release($1, $2)`, sess.ID, start)
}

// Marks is marks.Store's.
func (s *Store) Marks(ctx context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	var found []marks.Mark
	err := s.retry(ctx, func() error {
		rows, err := s.pool.Query(ctx, `select resource, token, issuer, holder, raised_at, confirmed, continued, adoption, sessions from ringfence.marks($1)`, only)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (m marks.Mark, err error) {
			err = r.Scan(&m.Resource, &m.Token, &m.Issuer, &m.Holder, &m.Raised, &m.Confirmed, &m.Continued, &m.Adoption, &m.Sessions)
			return m, err
		})
		return err
	})
	return found, err
}

// Adopt is marks.Admin's.
func (s *Store) Adopt(ctx context.Context, c fence.Claim, by string) (marks.Mark, error) {
	before := marks.Mark{Resource: c.Resource}
	err := s.row(ctx, func(r pgx.Row) error { return scanMark(r, &before) },
		`select token, issuer, holder, coalesce(raised_at, 'epoch'), confirmed, continued, adoption from ringfence.adopt($1, $2, $3, $4, $5)`,
		c.Resource, int64(c.Token), c.Issuer, c.Holder, by)
	if err != nil {
		return before, err
	}
	if _, err := s.Revoke(ctx, marks.Session{}, c); err != nil {
		return before, fmt.Errorf("the mark of %q is adopted, but its older sessions still live: %w", c.Resource, err)
	}
	return before, nil
}

// scanMark reads the mark columns behind whatever columns come first.
func scanMark(r pgx.Row, m *marks.Mark, first ...any) error {
	return r.Scan(append(first, &m.Token, &m.Issuer, &m.Holder, &m.Raised, &m.Confirmed, &m.Continued, &m.Adoption)...)
}

func (s *Store) row(ctx context.Context, scan func(pgx.Row) error, sql string, args ...any) error {
	return s.retry(ctx, func() error { return scan(s.pool.QueryRow(ctx, sql, args...)) })
}

func (s *Store) exec(ctx context.Context, sql string, args ...any) error {
	return s.retry(ctx, func() error {
		_, err := s.pool.Exec(ctx, sql, args...)
		return err
	})
}

// retry calls once more when the connection broke: a pooled connection may be one of a server that is gone, and every
// statement of ours may be repeated.
func (s *Store) retry(ctx context.Context, call func() error) error {
	err := call()
	if err != nil && ctx.Err() == nil && broken(err) {
		s.pool.Reset() // the other connections are probably dead, too
		err = call()
	}
	return explain(err)
}

func broken(err error) bool {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return false // a new connection could not be made either
	}
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "57P") // the server went down under the statement
	}
	return !errors.Is(err, pgx.ErrNoRows) && !isRefusal(err)
}

func isRefusal(err error) bool {
	var r *fence.Refusal
	return errors.As(err, &r)
}

// sweep forgets, now and then, sessions whose guard could not do so itself.
func (s *Store) sweep(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
		_ = s.exec(bounded, `select ringfence.sweep()`) // the next one may succeed; nothing depends on it
		cancel()
	}
}
