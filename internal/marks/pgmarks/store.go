package pgmarks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/postgres/pgcause"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Options of a Store. The zero value is right for a guard.
type Options struct {
	// Connections limits the control connections; 4 when zero. An admission holds one for the time
	// of one short statement.
	Connections int32
	// AllowPrepared makes the store serve although max_prepared_transactions is above 0. A prepared
	// transaction outlives its session, so anybody can still commit a deposed leader's. Set it only
	// for databases where nobody uses them.
	AllowPrepared bool
	// Replaced is called when another database of the same server has got the store's name, by RENAME
	// or by DROP and CREATE. What a process remembers of the marks is of the database before. May be
	// nil.
	Replaced func()
	// Primary is called when another of several hosts is the primary, also at first; may be nil, must
	// not block.
	Primary func(address string)
	// Timeouts say when the server counts as gone, for control connections and for Dial.
	Timeouts keepalive.Timeouts

	program bool // of a program, which only raises: with a program's rights, and without sweeps
}

// Store keeps marks and sessions in the schema ringfence of the database itself. Any goroutine of
// any number of processes may call its methods.
type Store struct {
	pool *pgxpool.Pool
	Target
	stop    context.CancelFunc
	sweeper sync.WaitGroup
	revoked chan struct{} // has a value if backends may be leaving that a revocation has to end
	looks   marks.Looks[reading]
	of      origin
	program bool // see Options

	listenIdle time.Duration // the constant; tests change it
}

var (
	_ marks.Store   = (*Store)(nil)
	_ marks.Admin   = (*Store)(nil)
	_ marks.Crowded = (*Store)(nil)
	_ marks.Issuing = (*Store)(nil)
)

// forever is how long a control connection lives. A new one in its place may find no room on a full
// server.
const forever = 100 * 365 * 24 * time.Hour

// finishTime is how long a statement goes on after its context has ended.
const finishTime = 500 * time.Millisecond

// finishing lets a control connection finish its statement when the context ends. pgx closes a
// connection in the middle of a statement, and on a full server there may be no room for another
// one.
func finishing(c *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn(), DeadlineDelay: finishTime}
}

// Open returns a store without dialing; Probe reports whether the store can be used. Every control
// connection is probed before its first use, so the store notices a server that comes back
// different without a restart of the program. Open fails only for a malformed URL.
func Open(url string, o Options) (*Store, error) {
	to, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	to.cfg.DialFunc = o.Timeouts.Dialer().DialContext
	s := &Store{revoked: make(chan struct{}, 1), listenIdle: listenIdle, program: o.program}
	if hosts := pglogin.Hosts(to.cfg); len(hosts) > 1 {
		to.several = follow(hosts, to.password, func(address string) {
			if s.pool.Reset(); o.Primary != nil {
				o.Primary(address)
			}
		})
	}
	s.Target = to
	pc.ConnConfig = to.cfg.Copy()
	pc.ConnConfig.ValidateConnect = nil // probe says more
	pc.ConnConfig.BuildContextWatcherHandler = finishing
	pc.BeforeConnect = func(ctx context.Context, cfg *pgx.ConnConfig) error {
		primary, until, err := to.primary(ctx, untilAsked)
		if err != nil {
			return err
		}
		cfg.DialFunc = closing(until, cfg.DialFunc)
		cfg.Host, cfg.Port = primary.Host, primary.Port
		cfg.TLSConfig, cfg.Fallbacks = primary.TLSConfig, primary.Fallbacks
		return pglogin.Fill(ctx, cfg, to.password)
	}
	pc.MaxConns = o.Connections
	if pc.MaxConns == 0 {
		pc.MaxConns = 4
	}
	pc.MaxConnIdleTime = 3 * time.Minute // longer than between two sweeps, which keep two warm
	pc.MaxConnLifetime = forever
	pc.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		to.password.Accepted()
		err := probe(ctx, c, o)
		if err == nil && !o.program {
			err = s.of.check(ctx, c, o.Replaced)
		}
		return err
	}
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), pc); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.sweeper.Go(func() { s.sweep(ctx, !o.program) })
	return s, nil
}

// Close closes the control connections and waits for background work.
func (s *Store) Close() {
	s.stop()
	s.sweeper.Wait()
	s.several.close()
	s.pool.Close()
}

// Ping asks the server for any answer. It dials if there is no connection.
func (s *Store) Ping(ctx context.Context) error {
	return explain(s.loggedIn(ctx, func() error { return s.pool.Ping(ctx) }))
}

// Database returns the name of the database that this store protects and that has its marks.
func (s *Store) Database() string { return s.cfg.Database }

// Register implements marks.Store, in one statement and one transaction. If the session is on
// another server than the control connections, Register redials these and tries once more: a
// balancer may have switched servers since they were dialed.
func (s *Store) Register(
	ctx context.Context, sess marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	reg, err := s.register(ctx, sess, claims)
	if errors.Is(err, errOtherServer) && s.onOtherServer(ctx, sess.Run) {
		s.pool.Reset()
		reg, err = s.register(ctx, sess, claims)
	}
	return reg, err
}

func (s *Store) register(
	ctx context.Context, sess marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	start, err := parseBirth(sess.Birth)
	if err != nil {
		return marks.Registration{}, err
	}
	var resources []string
	var tokens []int64
	var candidates []string
	var issuer fence.Issuer
	for _, c := range claims {
		resources = append(resources, string(c.Resource))
		tokens = append(tokens, int64(c.Token))
		candidates = append(candidates, c.Candidate)
		issuer = c.Issuer
	}
	var step string
	var m marks.Mark
	var read reading
	err = s.rowFor(ctx, resources, func(r pgx.Row) error {
		return scanMark(r, &m, &step, &read.basis, &read.older, &m.Resource)
	}, registerSQL,
		sess.ID, start, sess.Run, resources, tokens, candidates, issuer)
	if err != nil {
		return marks.Registration{}, err
	}
	reg, err := registration(step, m, claims)
	if step == "forbidden" {
		return reg, refusal.NotAuthorized(reg.Claim, read.basis)
	}
	if err == nil && reg.Next == marks.MustRaise {
		read.mark = m
		s.looks.Put(sess, m.Resource, read)
	}
	return reg, err
}

// registration turns the answer of ringfence.register into a next step or a refusal, for the claim
// whose mark it returned.
func registration(
	step string, m marks.Mark, claims []fence.Claim,
) (marks.Registration, error) {
	reg := marks.Registration{Mark: m}
	for _, c := range claims {
		if c.Resource == m.Resource {
			reg.Claim = c
		}
	}
	switch step {
	case "admitted":
		reg.Next = marks.Admitted
	case "raise":
		reg.Next = marks.MustRaise
	case "revoke":
		reg.Next = marks.MustRevoke
	case "stale":
		return reg, refusal.Stale(reg.Claim, m.Token, m.Holder, m.Raised)
	case "issuer":
		return reg, otherIssuer(reg.Claim, m)
	case "elsewhere":
		return reg, errOtherServer
	case "forbidden": // register has the role
	default:
		return reg, fmt.Errorf("the database answered an unknown step %q: "+
			"guard and schema are of different versions", step)
	}
	return reg, nil
}

// otherIssuer refuses a claim whose issuer is not the mark's, or was rolled back.
func otherIssuer(c fence.Claim, m marks.Mark) error {
	if m.RolledBack && m.Issuer == c.Issuer {
		return refusal.RolledBack(c, m.Token)
	}
	return refusal.OtherIssuer(c, m.Token, m.Issuer)
}

// reading is a mark, and the basis that a raise of it compares.
type reading struct {
	mark  marks.Mark
	basis string
	older int // sessions that the raise leaves to revoke; 0 if that is not known
}

// Raise implements marks.Store. It reads the mark, unless a registration has just done so. Then it
// raises the mark in one statement that compares what was read, and that commits with
// synchronous_commit on.
func (s *Store) Raise(
	ctx context.Context, newcomer marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	read, cached := s.looks.Pop(newcomer, c.Resource)
	for {
		var err error
		if !cached {
			read, err = s.look(ctx, c.Resource)
		}
		if cached = false; err != nil {
			return read.mark, err
		}
		confirmed, err := confirm(ctx, read.mark)
		if err != nil {
			return read.mark, err
		}
		before, changed, err := s.raise(ctx, confirmed, read.basis)
		if !changed || err != nil {
			before.Sessions = read.older
			return before, err
		}
	}
}

// look reads a mark, and the basis that a raise of it compares.
func (s *Store) look(ctx context.Context, r fence.Resource) (l reading, err error) {
	l.mark.Resource = r
	err = s.row(ctx, func(r pgx.Row) error { return scanMark(r, &l.mark, &l.basis) },
		`select basis, `+markColumns+` from ringfence.look($1::text)`, r)
	return l, s.mayLead(err)
}

// raise raises a mark, unless its basis has changed since look. It returns whether it has.
func (s *Store) raise(
	ctx context.Context, c fence.Claim, basis string,
) (before marks.Mark, changed bool, err error) {
	var step string
	before.Resource = c.Resource
	sql := raiseSQL
	if s.program {
		sql = raiseOwnSQL
	}
	err = inEncoding(func(text func(string) string) error {
		return s.rowFor(ctx, []string{string(c.Resource)}, func(r pgx.Row) error {
			return scanMark(r, &before, &step)
		},
			sql, c.Resource, int64(c.Token), c.Issuer, text(c.Holder), c.Candidate, basis)
	})
	switch {
	case err != nil:
		return before, false, Refused(err, c)
	case step == "issuer", step == "rolled back":
		return before, false, otherIssuer(c, before)
	}
	return before, step == "changed", nil
}

// inEncoding makes a call with texts as they are and, if the database's encoding lacks a character,
// with escaped ones. A holder is only told to people, so its name must not keep a leader out.
func inEncoding(call func(text func(string) string) error) error {
	err := call(func(s string) string { return s })
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "22P05" {
		return call(escaped)
	}
	return err
}

// escaped returns a text in ASCII.
func escaped(s string) string {
	quoted := strconv.QuoteToASCII(s)
	return quoted[1 : len(quoted)-1]
}

// Release implements marks.Store, in one statement.
func (s *Store) Release(
	ctx context.Context, all ...marks.Departed,
) (leaving []marks.SessionID, err error) {
	var ids []int64
	var starts []time.Time
	var proofs []string
	var overdue []bool
	for _, d := range all {
		start, err := parseBirth(d.Session.Birth)
		if err != nil {
			return nil, err
		}
		ids, starts = append(ids, d.Session.ID), append(starts, start)
		proofs, overdue = append(proofs, d.Proof), append(overdue, d.Overdue)
	}
	var places []int64
	err = s.row(ctx, func(r pgx.Row) error { return r.Scan(&places) },
		releaseSQL, ids, starts, proofs, overdue)
	for _, p := range places {
		leaving = append(leaving, all[p-1].Session)
	}
	return leaving, err
}

// Issuer implements marks.Issuing.
func (s *Store) Issuer(ctx context.Context) (is fence.Issuer, err error) {
	err = s.row(ctx, func(r pgx.Row) error { return r.Scan(&is) }, `select ringfence.issuer()`)
	return is, err
}

// Marks implements marks.Store.
func (s *Store) Marks(ctx context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	var found []marks.Mark
	err := s.retry(ctx, func() error {
		rows, err := s.pool.Query(ctx,
			`select sessions, resource, `+markColumns+` from ringfence.marks($1::text[])`, only)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (m marks.Mark, err error) {
			err = scanMark(r, &m, &m.Sessions, &m.Resource)
			return m, err
		})
		return err
	})
	return found, err
}

// Adopt implements marks.Admin.
func (s *Store) Adopt(ctx context.Context, c fence.Claim, by string) (marks.Mark, error) {
	before := marks.Mark{Resource: c.Resource}
	err := inEncoding(func(text func(string) string) error {
		return s.rowFor(ctx, []string{string(c.Resource)}, func(r pgx.Row) error {
			return scanMark(r, &before)
		},
			`select token, issuer, holder, coalesce(raised_at, 'epoch'),
			        confirmed, continued, adoption, '', false
			   from ringfence.adopt($1::text, $2::bigint, $3::text, $4::text, $5::text)`,
			c.Resource, int64(c.Token), c.Issuer, text(c.Holder), text(by))
	})
	if err != nil {
		return before, err
	}
	return before, marks.EndOlder(ctx, s, c)
}

// scanMark scans the columns in first, and then those of the mark.
func scanMark(r pgx.Row, m *marks.Mark, first ...any) error {
	return r.Scan(append(first, &m.Token, &m.Issuer, &m.Holder, &m.Raised,
		&m.Confirmed, &m.Continued, &m.Adoption, &m.Candidate, &m.RolledBack)...)
}

func (s *Store) row(ctx context.Context, scan func(pgx.Row) error, sql string, args ...any) error {
	return s.retry(ctx, func() error { return scan(s.pool.QueryRow(ctx, sql, args...)) })
}

// rowFor is row for a call that locks rows of resources. It ends who holds them up: see
// pgschema.Unheld.
func (s *Store) rowFor(
	ctx context.Context, resources []string, scan func(pgx.Row) error, sql string, args ...any,
) error {
	exec := func(sql string, args ...any) error { return s.exec(ctx, sql, args...) }
	return pgschema.Unheld(ctx, resources, exec, func() error {
		return s.row(ctx, scan, sql, args...)
	})
}

func (s *Store) exec(ctx context.Context, sql string, args ...any) error {
	return s.retry(ctx, func() error {
		_, err := s.pool.Exec(ctx, sql, args...)
		return err
	})
}

// maxTries is how often a call is begun that loses its connection.
const maxTries = 3

// retry repeats a call if it lost its connection: a pooled connection may lead to a server that is
// gone, and each of our statements may be repeated.
func (s *Store) retry(ctx context.Context, call func() error) error {
	err := s.loggedIn(ctx, call)
	for n := 1; n < maxTries && err != nil && ctx.Err() == nil && connectionLost(err); n++ {
		s.pool.Reset() // the other connections are probably dead, too
		err = s.loggedIn(ctx, call)
	}
	err = explain(err)
	if r, ok := errors.AsType[*fence.Refusal](err); ok && r.Reason == fence.ErrNotInstalled {
		return refusal.NotInstalledIn(s.cfg.Database, r)
	}
	return err
}

// loggedIn repeats a call whose new connection was not let in: its password may be changing, or the
// server is full, and another connection of the pool comes free soon.
func (s *Store) loggedIn(ctx context.Context, call func() error) error {
	until := time.Now().Add(freeTime)
	for n := 1; ; n++ {
		err := s.password.Retry(ctx, pglogin.Refused, call)
		_, undialed := errors.AsType[*pgconn.ConnectError](err)
		if !undialed || !failedWith(err, NoConnections) || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
		backoff.Pause(ctx, backoff.After(n, 2*time.Millisecond, 50*time.Millisecond))
	}
}

// freeTime bounds the wait for a connection of the pool while the server has no room for another
// one.
const freeTime = time.Second

func connectionLost(err error) bool {
	if _, undialed := errors.AsType[*pgconn.ConnectError](err); undialed {
		return false // a new connection could not be made either
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgcause.OfClass(pg, "57P") // the server went down during the statement
	}
	_, refused := errors.AsType[*fence.Refusal](err)
	return !refused && !errors.Is(err, pgx.ErrNoRows)
}
