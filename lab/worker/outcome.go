package worker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab/history"
)

// result is what a process knows about its operation. If it does not know, it says so: the checker
// trusts it.
type result struct {
	outcome history.Outcome
	err     error
	code    string // of a refusal, in the store's form
}

var acknowledged = result{outcome: history.OK}

// text returns the reason in one line, with the code of a refusal in front.
func (r result) text() string {
	if r.err == nil {
		return ""
	}
	text := strings.Join(strings.Fields(r.err.Error()), " ")
	if r.code != "" && !strings.HasPrefix(text, r.code) {
		text = r.code + " " + text
	}
	return text
}

// unsent is the result for an error before the one message that commits a write: nothing was
// committed.
func unsent(err error, code func(fence.Reason) string) result {
	var r *fence.Refusal
	switch {
	case !errors.As(err, &r):
		return result{outcome: history.Failed, err: err}
	case r.Reason == fence.ErrStale:
		return result{outcome: history.Stale, err: err, code: code(r.Reason)}
	}
	return result{outcome: history.Refused, err: err, code: code(r.Reason)}
}

// beforeCommit is the result for an error in a transaction whose COMMIT was not sent.
func beforeCommit(err error, c fence.Claim) result {
	return unsent(pgmarks.Explain(err, c), refusal.SQLState)
}

// committed is the result for the answer to COMMIT. Nothing was committed only if the server
// answers with an ERROR or a ROLLBACK, or if COMMIT was never sent. A FATAL error is the end of the
// session, which can come after the commit: a backend that is ended while it waits for a
// synchronous standby has committed, and the guard sends RF001 instead of the missing answer.
func committed(err error) result {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, pgx.ErrTxCommitRollback), neverSent(err):
		return result{outcome: history.Failed, err: err}
	case errors.As(err, &pg) && pg.Severity == "ERROR":
		return result{outcome: history.Failed, err: err, code: pg.Code}
	case errors.As(err, &pg):
		// The detail names the mark's holder, which is how the check knows who was elected.
		err = fmt.Errorf("%s — %s (%w)", pg.Message, pg.Detail, err)
		return result{outcome: history.Unknown, err: err, code: pg.Code}
	}
	return result{outcome: history.Unknown, err: err}
}

// neverSent reports whether the server never received the message. ErrConnClosed does not prove
// that, though the driver calls it safe to retry: pgx 5.12 also returns it if a connection breaks
// while it waits for an answer.
func neverSent(err error) bool {
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// ran is the result for the answer to a script that was sent on an admitted session. STALETOKEN is
// then what the guard sends instead of a missing answer: the script may have run just before.
func ran(err error, c fence.Claim) result {
	var r *fence.Refusal
	refused := errors.As(redismarks.Refused(err, c), &r)
	switch {
	case err == nil:
		return acknowledged
	case refused && r.Reason != fence.ErrStale:
		return result{outcome: history.Refused, err: err, code: refusal.Word(r.Reason)}
	case refused:
		return result{outcome: history.Unknown, err: err, code: refusal.Word(r.Reason)}
	case notBegun(err):
		return result{outcome: history.Failed, err: err}
	}
	return result{outcome: history.Unknown, err: err}
}

// notBegun reports whether Redis itself answered before it ran anything.
func notBegun(err error) bool {
	if strings.Contains(err.Error(), "user_script") {
		return false
	}
	for _, prefix := range []string{"BUSY ", "MISCONF ", "OOM ", "READONLY "} {
		if driver.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return driver.IsLoadingError(err)
}

// underClaim is the result for a script that carries its claim (redisstore.Script). Its errors say
// what is known.
func underClaim(err error) result {
	var r *fence.Refusal
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, fence.ErrUnknown):
		return result{outcome: history.Unknown, err: err}
	case errors.Is(err, fence.ErrNotDone), errors.As(err, &r):
		return unsent(err, refusal.Word)
	}
	// An error in the script itself: what it wrote before stays.
	return result{outcome: history.Unknown, err: err}
}

// published is the result for a journal's call that writes.
func published(err error) result {
	var r *fence.Refusal
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, fence.ErrUnknown):
		return result{outcome: history.Unknown, err: err}
	case errors.As(err, &r), errors.Is(err, checkpoint.ErrConflict),
		errors.Is(err, fence.ErrNotDone), errors.Is(err, checkpoint.ErrUncommitted):
		return unsent(err, refusal.SQLState)
	}
	return result{outcome: history.Unknown, err: err}
}

// raised is the result for a raise, which has several parts: a store may raise the mark and then
// refuse, because older sessions do not end or a newer leader has come meanwhile. So only refusals
// that come before any raise prove that there was none.
func raised(err error, code func(fence.Reason) string) result {
	var r *fence.Refusal
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, errUnreachable):
		return result{outcome: history.Failed, err: err}
	case !errors.As(err, &r):
		return result{outcome: history.Unknown, err: err}
	}
	switch r.Reason {
	case fence.ErrOtherIssuer, fence.ErrNotInstalled, fence.ErrNoToken,
		fence.ErrMalformed:
		return unsent(err, code)
	}
	return result{outcome: history.Unknown, err: err, code: code(r.Reason)}
}
