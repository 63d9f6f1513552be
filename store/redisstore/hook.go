package redisstore

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

var _ driver.Hook = (*termBinding)(nil)

// DialHook implements the driver's Hook.
func (b *termBinding) DialHook(next driver.DialHook) driver.DialHook { return next }

// ProcessHook implements the driver's Hook. It sends nothing once the term is lost, and adds to
// errors what became of the command.
func (b *termBinding) ProcessHook(next driver.ProcessHook) driver.ProcessHook {
	return func(ctx context.Context, cmd driver.Cmder) error {
		if err := b.lostError(); err != nil {
			return err
		}
		return b.explain(next(ctx, cmd))
	}
}

// ProcessPipelineHook implements the driver's Hook.
func (b *termBinding) ProcessPipelineHook(
	next driver.ProcessPipelineHook,
) driver.ProcessPipelineHook {
	return func(ctx context.Context, cmds []driver.Cmder) error {
		if err := b.lostError(); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if e := cmd.Err(); e != nil {
				cmd.SetErr(b.explain(e))
			}
		}
		return b.explain(err)
	}
}

// explain adds what an error means for the term. It returns errors of Redis itself unchanged, and
// all others too while the term lasts. The hooks also run for the commands that open a connection,
// so an error may have been explained already.
func (b *termBinding) explain(err error) error {
	_, explained := errors.AsType[*fence.Refusal](err)
	if err == nil || explained || errors.Is(err, ErrNotRun) || errors.Is(err, ErrUnknown) {
		return err
	}
	if refused := redismarks.RefusalIn(err, b.term.Claim()); refused != nil {
		return b.refused(refused)
	}
	if _, answered := errors.AsType[driver.Error](err); answered || b.lostError() == nil {
		return err
	}
	what := ErrUnknown
	if redismarks.Unsent(err) {
		what = ErrNotRun
	}
	return fmt.Errorf("%w: %w: %w", what, context.Cause(b.term.Context()), err)
}

// refused ends the term if a newer leader has been admitted. The guard's error comes in the place
// of the answer to whatever was under way, which may have been run just before. When it comes while
// a connection is opened, the driver continues to open it, and finds the term lost.
func (b *termBinding) refused(r *fence.Refusal) error {
	if r.Reason != fence.ErrStale {
		return r
	}
	b.term.Supersede(r)
	return fmt.Errorf("%w: %w: %w", ErrUnknown, fence.ErrSuperseded, r)
}
