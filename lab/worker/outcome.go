package worker

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	pgstore "github.com/ringfence/ringfence/internal/marks/postgres"
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab/history"
)

// result is what a process knows of an operation of its own. Where it does not know, it says so: the checker takes it at
// its word.
type result struct {
	outcome history.Outcome
	err     error
	code    string // of a refusal, as the store has it
}

var acknowledged = result{outcome: history.OK}

// text is why, in one line; of a refusal it begins with the code.
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

// unsent is said of an error from before the one message that makes a write land: nothing has landed, whatever it is.
func unsent(err error, code func(fence.Reason) string) result {
	var r *fence.Refusal
	switch {
	case !errors.As(err, &r):
		return result{outcome: history.Failed, err: err}
	case r.Reason == fence.ReasonStale:
		return result{outcome: history.Stale, err: err, code: code(r.Reason)}
	}
	return result{outcome: history.Refused, err: err, code: code(r.Reason)}
}

// beforeCommit is said of what fails in a transaction whose COMMIT was not sent.
func beforeCommit(err error, c fence.Claim) result {
	return unsent(pgstore.Explain(err, c), refusal.SQLState)
}

// committed is said of the answer to COMMIT. Only an ERROR of the server, its ROLLBACK, or that COMMIT never left, say that
// nothing has landed. A FATAL error is the end of the session, which can come after the commit: a backend that is ended while
// it waits for a synchronous standby has committed, and the guard puts RF001 in the place of the answer that is missing.
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
		return result{outcome: history.Unknown, err: err, code: pg.Code}
	}
	return result{outcome: history.Unknown, err: err}
}

// neverSent says that the server was not asked. ErrConnClosed does not say so, though the driver calls it safe to retry: pgx 5.12
// also returns it when a connection breaks while an answer is awaited.
func neverSent(err error) bool {
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// ran is said of the answer to a script that was sent on a session that is admitted. STALETOKEN is then the guard's last word
// in the place of an answer that is missing: the script may have run just before.
func ran(err error, c fence.Claim) result {
	var r *fence.Refusal
	refused := errors.As(redisstore.Refused(err, c), &r)
	switch {
	case err == nil:
		return acknowledged
	case refused && r.Reason != fence.ReasonStale:
		return result{outcome: history.Refused, err: err, code: refusal.Word(r.Reason)}
	case refused:
		return result{outcome: history.Unknown, err: err, code: refusal.Word(r.Reason)}
	case notBegun(err):
		return result{outcome: history.Failed, err: err}
	}
	return result{outcome: history.Unknown, err: err}
}

// notBegun says that Redis itself has answered before it ran anything.
func notBegun(err error) bool {
	if strings.Contains(err.Error(), "user_script") {
		return false
	}
	return driver.HasErrorPrefix(err, "BUSY ") || driver.HasErrorPrefix(err, "MISCONF ") || driver.HasErrorPrefix(err, "OOM ") ||
		driver.HasErrorPrefix(err, "READONLY ") || driver.IsLoadingError(err)
}

// underClaim is said of a script that carries its claim (redisstore.Script): the product has told already.
func underClaim(err error) result {
	var r *fence.Refusal
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, redisstore.ErrUnknown):
		return result{outcome: history.Unknown, err: err}
	case errors.Is(err, redisstore.ErrNotRun), errors.As(err, &r):
		return unsent(err, refusal.Word)
	}
	return result{outcome: history.Unknown, err: err} // an error of the script's own: what it wrote before stays
}

// published is said of a call of a journal that would have written.
func published(err error) result {
	var r *fence.Refusal
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, checkpoint.ErrUnknown):
		return result{outcome: history.Unknown, err: err}
	case errors.As(err, &r), errors.Is(err, checkpoint.ErrConflict), errors.Is(err, checkpoint.ErrTransient),
		errors.Is(err, checkpoint.ErrUncommitted):
		return unsent(err, refusal.SQLState)
	}
	return result{outcome: history.Unknown, err: err}
}

// raised is said of a raise. It is not one act: a store may take the new mark and then refuse, because older sessions do
// not end or a newer leader has come in the meantime. So only those refusals are final that come before it can take any.
func raised(err error, code func(fence.Reason) string) result {
	var r *fence.Refusal
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, errNotAsked):
		return result{outcome: history.Failed, err: err}
	case !errors.As(err, &r):
		return result{outcome: history.Unknown, err: err}
	}
	switch r.Reason {
	case fence.ReasonOtherIssuer, fence.ReasonNotInstalled, fence.ReasonNoToken, fence.ReasonMalformed:
		return unsent(err, code)
	}
	return result{outcome: history.Unknown, err: err, code: code(r.Reason)}
}
