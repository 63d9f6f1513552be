package redis

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	marks "github.com/ringfence/ringfence/internal/marks/redis"
)

var _ driver.Hook = (*tenure)(nil)

// DialHook implements the driver's Hook.
func (t *tenure) DialHook(next driver.DialHook) driver.DialHook { return next }

// ProcessHook implements the driver's Hook: nothing is sent once the term is lost, and errors say what became of it.
func (t *tenure) ProcessHook(next driver.ProcessHook) driver.ProcessHook {
	return func(ctx context.Context, cmd driver.Cmder) error {
		if err := t.lost(); err != nil {
			return err
		}
		return t.judge(next(ctx, cmd))
	}
}

// ProcessPipelineHook implements the driver's Hook.
func (t *tenure) ProcessPipelineHook(next driver.ProcessPipelineHook) driver.ProcessPipelineHook {
	return func(ctx context.Context, cmds []driver.Cmder) error {
		if err := t.lost(); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if e := cmd.Err(); e != nil {
				cmd.SetErr(t.judge(e))
			}
		}
		return t.judge(err)
	}
}

// judge says what an error means for the term. Errors of Redis itself stay what they are, and so do all others while the
// term lasts. It is called for the commands that open a connection too, so an error may have been judged already.
func (t *tenure) judge(err error) error {
	var known *fence.Refusal
	if err == nil || errors.As(err, &known) || errors.Is(err, ErrNotRun) || errors.Is(err, ErrUnknown) {
		return err
	}
	if refused := marks.RefusalIn(err, t.term.Claim()); refused != nil {
		return t.refused(refused)
	}
	var answer driver.Error
	if errors.As(err, &answer) || t.lost() == nil {
		return err
	}
	what := ErrUnknown
	if marks.Unsent(err) {
		what = ErrNotRun
	}
	return fmt.Errorf("%w: %w: %w", what, context.Cause(t.term.Context()), err)
}

// refused ends the term if a newer leader has been admitted. The guard says so in the place of the answer to whatever was
// under way, which may have been run just before. When it says so as a connection is opened, the driver goes on opening
// it, and finds the term lost.
func (t *tenure) refused(r *fence.Refusal) error {
	if r.Reason != fence.ReasonStale {
		return r
	}
	t.term.Supersede(r)
	return fmt.Errorf("%w: %w: %w", ErrUnknown, fence.ErrSuperseded, r)
}
