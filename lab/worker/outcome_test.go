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
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/local"
)

// answer is an error of the server, in the form of go-redis.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

var _ driver.Error = answer("")

func TestOutcomesClaimOnlyWhatIsKnown(t *testing.T) {
	claim := fence.Claim{Resource: lab.Resource, Token: 7}
	pg := func(severity, code string) error {
		return fmt.Errorf("exec: %w", &pgconn.PgError{Severity: severity, Code: code, Message: "says the server"})
	}
	refusalFor := func(r fence.Reason) error {
		return fmt.Errorf("at db: %w", &fence.Refusal{Reason: r, Message: "says the store"})
	}
	for what, c := range map[string]struct {
		got  result
		want history.Outcome
		text string
	}{
		"begin, stale":                {beforeCommit(pg("FATAL", "RF001"), claim), history.Stale, "RF001"},
		"begin, other issuer":         {beforeCommit(pg("FATAL", "RF004"), claim), history.Refused, "RF004"},
		"insert, session ended":       {beforeCommit(pg("FATAL", "57P01"), claim), history.Failed, ""},
		"insert, connection broken":   {beforeCommit(io.ErrUnexpectedEOF, claim), history.Failed, ""},
		"insert, timeout":             {beforeCommit(context.DeadlineExceeded, claim), history.Failed, ""},
		"commit":                      {committed(nil), history.OK, ""},
		"commit, stale":               {committed(pg("FATAL", "RF001")), history.Unknown, "RF001"},
		"commit, session ended":       {committed(pg("FATAL", "57P01")), history.Unknown, "57P01"},
		"commit, not serializable":    {committed(pg("ERROR", "40001")), history.Failed, "40001"},
		"commit, rolled back":         {committed(pgx.ErrTxCommitRollback), history.Failed, ""},
		"commit, connection broken":   {committed(io.ErrUnexpectedEOF), history.Unknown, ""},
		"commit, connection closed":   {committed(pgconn.ErrConnClosed), history.Unknown, ""},
		"commit, timeout":             {committed(context.DeadlineExceeded), history.Unknown, ""},
		"session, stale":              {unsent(redisstore.Refused(answer("STALETOKEN older"), claim), refusal.Word), history.Stale, "STALETOKEN older"},
		"session, other issuer":       {unsent(redisstore.Refused(answer("ISSUER other"), claim), refusal.Word), history.Refused, "ISSUER other"},
		"session, connection refused": {unsent(&net.OpError{Op: "dial", Err: errors.New("refused")}, refusal.Word), history.Failed, ""},
		"script":                      {ran(nil, claim), history.OK, ""},
		"script, stale":               {ran(answer("STALETOKEN older"), claim), history.Unknown, "STALETOKEN older"},
		"script, not allowed":         {ran(answer("NOTALLOWED EVAL"), claim), history.Refused, "NOTALLOWED EVAL"},
		"script, connection broken":   {ran(io.EOF, claim), history.Unknown, ""},
		"script, loading":             {ran(answer("LOADING Redis is loading"), claim), history.Failed, ""},
		"script, error in the middle": {ran(answer("OOM command not allowed script: 1, on @user_script:1."), claim), history.Unknown, ""},
		"claim, stale":                {underClaim(refusalFor(fence.ReasonStale)), history.Stale, "STALETOKEN"},
		"claim, not raised":           {underClaim(refusalFor(fence.ReasonNotLeader)), history.Refused, "NOTLEADER"},
		"claim, answer lost":          {underClaim(fmt.Errorf("%w: %w", redisstore.ErrUnknown, refusalFor(fence.ReasonStale))), history.Unknown, ""},
		"claim, out of reach":         {underClaim(redisstore.ErrNotRun), history.Failed, ""},
		"claim, the script's own":     {underClaim(answer("ERR wrong type")), history.Unknown, ""},
		"raise":                       {raised(nil, refusal.SQLState), history.OK, ""},
		"raise, stale":                {raised(refusalFor(fence.ReasonStale), refusal.SQLState), history.Unknown, "RF001"},
		"raise, not revoked":          {raised(refusalFor(fence.ReasonUnrevoked), refusal.SQLState), history.Unknown, "RF006"},
		"raise, other issuer":         {raised(refusalFor(fence.ReasonOtherIssuer), refusal.SQLState), history.Refused, "RF004"},
		"raise, out of reach":         {raised(errUnreachable, refusal.SQLState), history.Failed, ""},
		"raise, connection broken":    {raised(io.EOF, refusal.SQLState), history.Unknown, ""},
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
	claim := fence.Claim{Resource: lab.Resource, Token: 7}
	for name, held := range map[string]lab.Shape{
		"answer": {HoldDown: true}, "request": {HoldUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			pg, rd := newLink(t, sharedPG.Addr()), newLink(t, sharedRD.Addr())
			c := s.direct(s.config("worker-"+name), lab.Direct)
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
			pg.Shape(lab.Shape{})
			rd.Shape(lab.Shape{})
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
