package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

// What became of a call under a claim that Redis did not answer.
var (
	// ErrNotRun: Redis was out of reach, or busy until ctx ended. Nothing was run: the call may be repeated.
	ErrNotRun = errors.New("redis could not be asked; nothing was run")
	// ErrUnknown: the answer was lost. All of it was run or nothing, or it is still to be: what is on its way arrives
	// late, and the fence alone says whether it then counts. Look before you repeat.
	ErrUnknown = errors.New("the answer of Redis was lost; the commands may have been run")
)

// once is a command that the driver must not send twice. By itself it sends a command up to four times when connections
// break, and an INCR whose answer was lost counts four times. The promise holds for a driver's Client; its clients of
// clusters and rings do not ask for it.
type once struct{ *driver.Cmd }

// NoRetry implements the driver's Cmder.
func (once) NoRetry() bool { return true }

// process sends a command once.
func process(ctx context.Context, db *driver.Client, args []any) (any, error) {
	cmd := driver.NewCmd(ctx, args...)
	_ = db.Process(ctx, once{cmd})
	return cmd.Result()
}

// outcome says of an error what became of the call. It has been said already where the error comes from a client for a
// term.
func outcome(err error, c fence.Claim) error {
	var answer driver.Error
	switch {
	case err == nil, errors.Is(err, ErrNotRun), errors.Is(err, ErrUnknown):
		return err
	case Unsent(err), early(err):
		return fmt.Errorf("%w: %w", ErrNotRun, err)
	case !errors.As(err, &answer):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return refusedIn(err, c)
}

// refusedIn is what a guard's answer means, or that of Redis. A guard that ends a session says that its token is stale in
// the place of the answer to whatever was under way, which may have been run just before.
func refusedIn(err error, c fence.Claim) error {
	refused := RefusalIn(err, c)
	switch {
	case refused == nil:
		return Explain(err)
	case refused.Reason == fence.ReasonStale:
		return fmt.Errorf("%w: %w", ErrUnknown, refused)
	}
	return refused
}

// Unsent says that the call did not get as far as a connection.
func Unsent(err error) bool {
	return notDialed(err) || errors.Is(err, driver.ErrPoolTimeout) || errors.Is(err, driver.ErrPoolExhausted) || errors.Is(err, driver.ErrClosed)
}

// early says that Redis answered before it ran anything, and may do so differently later.
func early(err error) bool {
	return !inScript(err) && (driver.HasErrorPrefix(err, "BUSY ") || driver.IsLoadingError(err) || driver.IsMaxClientsError(err))
}

// inScript says that a script had begun when the error came up: what it had written stays.
func inScript(err error) bool { return strings.Contains(err.Error(), "user_script") }
