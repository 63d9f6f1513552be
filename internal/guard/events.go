package guard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// Events returns a function that logs and counts what a store's admission reports.
func Events(log *slog.Logger, m *Metrics, protocol string) func(marks.Event) {
	var refused quiet
	return func(e marks.Event) {
		m.event(protocol, e)
		who := []any{
			"protocol", protocol, "resource", string(e.Claim.Resource), "token", e.Claim.Token.String(),
			"holder", e.Claim.Holder, "duration_ms", float64(e.Took.Microseconds()) / 1000,
		}
		switch e.Kind {
		case marks.Raised:
			log.Info("mark raised", append(who, "old_token", e.Before.Token.String(),
				"old_holder", e.Before.Holder, "issuer", string(e.Claim.Issuer))...)
		case marks.Revoked:
			log.Info("older sessions ended", append(who, "sessions", e.Ended)...)
		case marks.Opened:
			log.Debug("session admitted", append(who, "session", e.Session.ID)...)
		case marks.Finished:
			if e.Took >= slow {
				log.Info("slow admission", append(who, "result", result(e.Err), stepsOf(e))...)
			}
		case marks.Refused:
			level := slog.LevelWarn
			if refused.again(e) {
				level = slog.LevelDebug // a client that retries in a loop is counted, but not logged each time
			}
			r := refusalIn(e.Err)
			log.Log(context.Background(), level, "session refused", append(who,
				"reason", r.Reason.String(), "mark", r.Mark.String(), "err", e.Err)...)
		}
	}
}

// slow is how long an admission takes before it is logged with its steps.
const slow = time.Second

// stepsOf is how long each step of an admission took, in milliseconds.
func stepsOf(e marks.Event) slog.Attr {
	var steps []any
	for _, step := range slices.Sorted(maps.Keys(e.Steps)) {
		steps = append(steps, string(step), float64(e.Steps[step].Microseconds())/1000)
	}
	return slog.Group("steps_ms", steps...)
}

// result is what became of an admission, in one word.
func result(err error) string {
	if err == nil {
		return "admitted"
	}
	return cmp.Or(refusalIn(err).Reason.String(), "error")
}

// refusalIn returns the refusal in err, or an empty one.
func refusalIn(err error) *fence.Refusal {
	var r *fence.Refusal
	if errors.As(err, &r) {
		return r
	}
	return &fence.Refusal{}
}

// quiet remembers which refusals were logged in the last minute, by token and reason.
type quiet struct {
	mu   sync.Mutex
	last map[refusalKey]time.Time
}

type refusalKey struct {
	resource fence.Resource
	token    fence.Token
	reason   fence.Reason
}

const quietFor = time.Minute

func (q *quiet) again(e marks.Event) bool {
	key := refusalKey{e.Claim.Resource, e.Claim.Token, refusalIn(e.Err).Reason}
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.last[key]) < quietFor {
		return true
	}
	if q.last == nil || len(q.last) > 1000 { // invented tokens must not fill the memory
		q.last = make(map[refusalKey]time.Time)
	}
	q.last[key] = now
	return false
}
