package pgjournal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// deaf is a connection that breaks, once armed, in the middle of an answer: before the command tag
// that confirms the commit. The server has done the work and the client does not learn it.
type deaf struct {
	net.Conn
	word *atomic.Pointer[string] // nil: not armed
	over *atomic.Bool
}

func (d deaf) Read(b []byte) (int, error) {
	if d.over.Load() {
		return 0, io.EOF
	}
	n, err := d.Conn.Read(b)
	if word := d.word.Load(); word != nil {
		const header = 5 // of CommandComplete
		if at := bytes.Index(b[:n], []byte(*word+"\x00")); at >= header {
			d.over.Store(true)
			if n = at - header; n == 0 {
				return 0, io.EOF
			}
		}
	}
	return n, err
}

// deafJournal makes a journal that loses its answers from the word on.
func (d database) deafJournal(
	t *testing.T, mode pgx.QueryExecMode, word *atomic.Pointer[string],
) *pgjournal.Journal {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(d.url("app"))
	must.Succeed(t, err)
	cfg.ConnConfig.DefaultQueryExecMode = mode
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return deaf{c, word, new(atomic.Bool)}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	j := pgjournal.New(pool, pgjournal.Options{Raiser: pgmarks.NewRaiser(d.url("guard_role"))})
	t.Cleanup(j.Close)
	return j
}

// If a batch is sent without preparing it, as behind a pooler, the driver calls such an error safe
// to retry. So the lab found a write that had landed after the journal had said that it had not
// (testdata/histories/commit-answer-lost.jsonl).
func TestALostAnswerToCommitIsUnknown(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) { loseAnswers(t, mode) })
	}
}

func loseAnswers(t *testing.T, mode pgx.QueryExecMode) {
	d := installed(t)
	var word atomic.Pointer[string]
	j := d.deafJournal(t, mode, &word)
	c := fence.Claim{Resource: "nightly", Token: 7, Issuer: elector.Unverified, Holder: "leader"}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must.Succeed(t, j.Raise(ctx, c))
	cp := checkpoint.Checkpoint{
		Task: "task", Resource: c.Resource, Nonce: "n", Token: c.Token, Run: 1, Round: 1, Rounds: 1,
		Steps:  []string{"book"},
		Status: checkpoint.Running, State: json.RawMessage("{}"),
	}
	book := func() error {
		return j.Transact(ctx, c, func(ctx context.Context, tx pgx.Tx) (checkpoint.Checkpoint, error) {
			return cp, insert(ctx, tx, "x")
		})
	}
	publish := func() error { return j.Publish(ctx, c, cp) }
	for _, loss := range []struct {
		word    string
		call    func() error
		effects int
	}{{"COMMIT", book, 2}, {"SELECT 1", publish, 3}} {
		cp.Version++
		if err := book(); err != nil { // so that statements are prepared, and there is a connection
			t.Fatal(err)
		}
		cp.Version++
		word.Store(&loss.word)
		err := loss.call()
		word.Store(nil)
		if !errors.Is(err, checkpoint.ErrUnknown) || errors.Is(err, checkpoint.ErrTransient) {
			t.Errorf("the answer %s was lost: %v", loss.word, err)
		}
		if got := d.list(t, "select value from effect"); len(got) != loss.effects {
			t.Errorf("the answer %s was lost, and not the commit: %q", loss.word, got)
		}
		got := d.list(t, "select version::text from ringfence_private.checkpoint")
		if got[0] != fmt.Sprint(cp.Version) {
			t.Errorf("the answer %s was lost, and not the commit: version %s", loss.word, got[0])
		}
	}
}
