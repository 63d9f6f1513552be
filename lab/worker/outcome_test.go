package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/local"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// answer is an error of the server, in the form of go-redis.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

var _ driver.Error = answer("")

func TestOutcomesClaimOnlyWhatIsKnown(t *testing.T) {
	claim := fence.Claim{Resource: scenario.Resource, Token: 7}
	pg := func(severity, code string) error {
		return fmt.Errorf("exec: %w",
			&pgconn.PgError{Severity: severity, Code: code, Message: "from the server"})
	}
	refusalFor := func(r fence.Reason) error {
		return fmt.Errorf("at db: %w", &fence.Refusal{Reason: r, Message: "from the store"})
	}
	opened := func(err error) result { // a Redis session
		return unsent(redismarks.Refused(err, claim), refusal.Word)
	}
	oom := answer("OOM command not allowed script: 1, on @user_script:1.")
	lostAnswer := fmt.Errorf("%w: %w", redismarks.ErrUnknown, refusalFor(fence.ErrStale))
	const (
		ok, stale       = history.OK, history.Stale
		refused, failed = history.Refused, history.Failed
		unknown         = history.Unknown
	)
	for what, c := range map[string]struct {
		got  result
		want history.Outcome
		text string
	}{
		"begin, stale":              {beforeCommit(pg("FATAL", "RF001"), claim), stale, "RF001"},
		"begin, other issuer":       {beforeCommit(pg("FATAL", "RF004"), claim), refused, "RF004"},
		"insert, session ended":     {beforeCommit(pg("FATAL", "57P01"), claim), failed, ""},
		"insert, connection broken": {beforeCommit(io.ErrUnexpectedEOF, claim), failed, ""},
		"insert, timeout":           {beforeCommit(context.DeadlineExceeded, claim), failed, ""},
		"commit":                    {committed(nil), ok, ""},
		"commit, stale":             {committed(pg("FATAL", "RF001")), unknown, "RF001"},
		"commit, session ended":     {committed(pg("FATAL", "57P01")), unknown, "57P01"},
		"commit, not serializable":  {committed(pg("ERROR", "40001")), failed, "40001"},
		"commit, rolled back":       {committed(pgx.ErrTxCommitRollback), failed, ""},
		"commit, connection broken": {committed(io.ErrUnexpectedEOF), unknown, ""},
		"commit, connection closed": {committed(pgconn.ErrConnClosed), unknown, ""},
		"commit, timeout":           {committed(context.DeadlineExceeded), unknown, ""},
		"session, stale":            {opened(answer("STALETOKEN older")), stale, "STALETOKEN older"},
		"session, other issuer":     {opened(answer("ISSUER other")), refused, "ISSUER other"},
		"session, connection refused": {opened(&net.OpError{
			Op: "dial", Err: errors.New("refused"),
		}), failed, ""},
		"script": {ran(nil, claim), ok, ""},
		"script, stale": {ran(answer("STALETOKEN older"), claim), unknown, "STALETOKEN " +
			"older"},
		"script, not allowed": {ran(answer("NOTALLOWED EVAL"), claim), refused,
			"NOTALLOWED EVAL"},
		"script, connection broken":   {ran(io.EOF, claim), unknown, ""},
		"script, loading":             {ran(answer("LOADING Redis is loading"), claim), failed, ""},
		"script, error in the middle": {ran(oom, claim), unknown, ""},
		"claim, stale":                {underClaim(refusalFor(fence.ErrStale)), stale, "STALETOKEN"},
		"claim, not raised":           {underClaim(refusalFor(fence.ErrNotRaised)), refused, "NOTRAISED"},
		"claim, answer lost":          {underClaim(lostAnswer), unknown, ""},
		"claim, out of reach":         {underClaim(redismarks.ErrNotRun), failed, ""},
		"claim, the script's own":     {underClaim(answer("ERR wrong type")), unknown, ""},
		"raise":                       {raised(nil, refusal.SQLState), ok, ""},
		"raise, stale": {raised(refusalFor(fence.ErrStale), refusal.SQLState), unknown,
			"RF001"},
		"raise, not revoked": {raised(refusalFor(fence.ErrUnrevoked), refusal.SQLState), unknown,
			"RF006"},
		"raise, other issuer": {raised(refusalFor(fence.ErrOtherIssuer), refusal.SQLState), refused,
			"RF004"},
		"raise, out of reach":      {raised(errUnreachable, refusal.SQLState), failed, ""},
		"raise, connection broken": {raised(io.EOF, refusal.SQLState), unknown, ""},
	} {
		if c.got.outcome != c.want || !strings.HasPrefix(c.got.text(), c.text) {
			t.Errorf("%s: %s %q, want %s %q", what, c.got.outcome, c.got.text(), c.want, c.text)
		}
	}
}

func newLink(t *testing.T, to string) *local.Link {
	t.Helper()
	l, err := local.NewLink(to, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestAHeldAnswerIsUnknownAndNothingHangs(t *testing.T) {
	s := newStage(t)
	claim := fence.Claim{Resource: scenario.Resource, Token: 7}
	for name, held := range map[string]system.Shape{
		"answer": {HoldDown: true}, "request": {HoldUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			pg, rd := newLink(t, sharedPG.Addr()), newLink(t, sharedRD.Addr())
			c := s.direct(s.config("worker-"+name), scenario.Direct)
			c.Postgres = "postgres://direct@" + pg.Addr() + "/" + s.database + "?sslmode=disable"
			c.Redis = "redis://" + rd.Addr()
			var w *worker
			hold := func(l *local.Link) { // before that, operations have more time
				l.Shape(held)
				w.c.Deadline = time.Second
			}
			w = newWorker(c, func(e history.Event) {
				if isInside(e) { // everything is done but COMMIT
					hold(pg)
				}
			}, newSignals())

			p, err := w.postgresUnder(claim)
			s.must(err)
			defer p.close()
			w.signals.stopInside()
			close(w.signals.on)
			s.known(p, "postgres", name, history.Unknown, held.HoldDown)
			s.known(p, "postgres", name+"-next", history.Failed, false)

			w.c.Deadline = c.Deadline
			r, err := w.redisUnder(claim)
			s.must(err)
			defer r.close()
			s.known(r, "redis", name+"-first", history.OK, true)
			hold(rd)
			s.known(r, "redis", name, history.Unknown, held.HoldDown)
			s.known(r, "redis", name+"-next", history.Failed, false)
			pg.Shape(system.Shape{})
			rd.Shape(system.Shape{})
		})
	}
}

// known makes one write, which has to end in time, and compares its outcome with the database.
func (s *stage) known(
	w writer, store, op string, want history.Outcome, committed bool,
) {
	s.t.Helper()
	began := time.Now()
	r := w.write(s.ctx, op, 7)
	if took := time.Since(began); r.outcome != want || took > awaitTime {
		s.t.Errorf("%s, %s: %s after %s: %s", store, op, r.outcome, took, r.text())
	}
	is := func() bool { return slices.Contains(s.evidence()[store], entryOf{op, 7}) }
	if committed {
		s.await("it is committed", is)
	} else if is() {
		s.t.Errorf("%s, %s is committed", store, op)
	}
}
