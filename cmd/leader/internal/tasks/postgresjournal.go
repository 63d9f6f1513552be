package tasks

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/network/password"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/store/pgstore"
)

// pgJournal is a journal for synchronous steps.
type pgJournal interface {
	checkpoint.Journal
	checkpoint.Transactor[pgx.Tx]
}

// raisedPostgres is raisedJournal for a journal with transactions.
type raisedPostgres struct {
	pgJournal
	raiser
}

// Raise implements fence.Raiser.
func (j raisedPostgres) Raise(ctx context.Context, c fence.Claim) error {
	return j.raiser.Raise(ctx, c)
}

// tokenJournal is a journal whose connections carry the token of the term, so that a guard in
// between admits them.
type tokenJournal struct {
	*pgjournal.Journal
	pool     *pgxpool.Pool
	password *password.Source // nil: that of the URL
	claim    atomic.Pointer[fence.Claim]
}

func openPostgresJournal(
	ctx context.Context, url string, o JournalOptions,
) (checkpoint.Journal, func(), error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err // it does not contain the password
	}
	source, err := pglogin.Prepare(cfg.ConnConfig)
	if err != nil {
		return nil, nil, err
	}
	j := &tokenJournal{password: source}
	params := cfg.ConnConfig.RuntimeParams
	if params["application_name"] == "" {
		params["application_name"] = o.Holder
	}
	if !strings.Contains(url, "default_query_exec_mode=") {
		// No named statements: discardAll would drop them without the driver's knowledge.
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	cfg.BeforeConnect = j.carry
	cfg.AfterRelease = discardAll
	cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		o.Logger.Info("Postgres notice", "severity", n.Severity, "notice", n.Message)
	}
	if j.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, nil, err
	}
	// Shared, since steps run any SQL, and discardAll resets the session.
	j.Journal = pgjournal.New(j.pool, pgjournal.Options{Shared: true})
	return j, func() { j.Close(); j.pool.Close() }, nil
}

// carry adds the present password to a new connection, and the token if there is one yet. Without a
// guard in between it has no effect.
func (j *tokenJournal) carry(ctx context.Context, cfg *pgx.ConnConfig) error {
	if c := j.claim.Load(); c != nil {
		cfg.RuntimeParams["options"] = pgstore.AppendOptions(cfg.RuntimeParams["options"], *c)
	}
	return pglogin.FillAccepted(ctx, cfg, j.password)
}

// Raise implements fence.Raiser. It only checks the mark, and replaces connections of earlier
// claims.
func (j *tokenJournal) Raise(ctx context.Context, c fence.Claim) error {
	if before := j.claim.Swap(&c); before == nil || *before != c {
		j.pool.Reset()
	}
	return j.Journal.Raise(ctx, c)
}

// discardAll removes what a step may have left in a session: settings, temporary tables, advisory
// locks. A step must not rely on things that the next leader does not have.
func discardAll(conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := conn.Exec(ctx, "discard all")
	return err == nil
}
