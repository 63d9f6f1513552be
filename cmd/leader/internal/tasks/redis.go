package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/store/redisstore"
)

// redisURL returns where Redis steps run, or "".
func (inv *Invocation) redisURL() settings.URL {
	if inv.Settings.Redis != "" {
		return inv.Settings.Redis
	}
	return inv.Settings.first(redismarks.Schemes...)
}

// redisClient runs the commands of Redis steps. As a fence.Raiser it only checks the mark, once per
// term.
type redisClient struct {
	url settings.URL

	mu sync.Mutex
	db *driver.Client // its connections carry the claim, so that a guard in between admits them
	of fence.Claim
}

// checkMark runs nothing but the check of the mark.
var checkMark = redisstore.NewScript("return 1")

// Raise implements fence.Raiser.
func (r *redisClient) Raise(ctx context.Context, c fence.Claim) error {
	db, err := r.clientFor(c)
	if err != nil {
		return err
	}
	_, err = checkMark.Run(ctx, db, c, nil)
	return err
}

// clientFor returns a client for this claim, and closes that of an earlier one.
func (r *redisClient) clientFor(c fence.Claim) (*driver.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db != nil && r.of == c {
		return r.db, nil
	}
	db, err := redismarks.Connect(r.url.Reveal(), refusal.ClientName(c))
	if err != nil {
		return nil, err
	}
	r.closeLocked()
	r.db, r.of = db, c
	return db, nil
}

func (r *redisClient) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeLocked()
}

func (r *redisClient) closeLocked() {
	if r.db != nil {
		_ = r.db.Close()
		r.db = nil
	}
}

// redisStep holds the commands of one step.
type redisStep struct {
	*taskRun
	commands [][]any
	timeout  time.Duration
}

// run is the step's Run. It does not change the state.
func (s redisStep) run(
	ctx context.Context, state json.RawMessage, _ checkpoint.Key,
) (json.RawMessage, error) {
	ctx, stop := withTimeout(ctx, s.timeout)
	defer stop()
	claim := s.elector.term().Claim()
	for failed := 1; ; failed++ {
		err := s.once(ctx, claim)
		if errors.Is(err, fence.ErrNotRaised) || errors.Is(err, fence.ErrNotInstalled) {
			// Redis has lost the mark.
			err = cmp.Or(s.redisRaiser.Raise(ctx, claim), fmt.Errorf("%w: %w", redisstore.ErrNotRun, err))
		}
		if !transient(err) || ctx.Err() != nil {
			return state, withCause(ctx, err)
		}
		s.Log.Warn("Redis could not run the step; retrying", "cause", s.Settings.scrub(err.Error()))
		if err := s.wait(ctx, redisBackoff(failed)); err != nil {
			return state, err
		}
	}
}

var redisBackoff = checkpoint.Exponential(20*time.Millisecond, time.Second)

// transient reports errors that the commands have not caused. If a reply was lost, the commands run
// again, like any asynchronous step.
func transient(err error) bool {
	return errors.Is(err, fence.ErrNotDone) || errors.Is(err, fence.ErrUnknown) || fence.Temporary(err)
}

// once runs the commands in one script. As in MULTI, the others run even if one fails.
func (s redisStep) once(ctx context.Context, c fence.Claim) error {
	db, err := s.redis.clientFor(c)
	if err != nil {
		return err
	}
	var tx redisstore.Tx
	for _, command := range s.commands {
		tx.Do(command...)
	}
	replies, err := tx.Exec(ctx, db, c)
	if err != nil {
		return err
	}
	var failed []error
	for i, reply := range replies {
		if err, ok := reply.(error); ok {
			failed = append(failed, fmt.Errorf("command %d, %v: %w", i+1, s.commands[i][0], err))
		}
	}
	return errors.Join(failed...)
}
