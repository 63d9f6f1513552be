package redismarks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

// The errors of a call under a claim that Redis did not answer, documented in store/redisstore.
var (
	ErrNotRun  = fmt.Errorf("redis did not run the commands; %w", fence.ErrNotDone)
	ErrUnknown = fmt.Errorf("%w; the commands may have been run", fence.ErrUnknown)
)

// noRetry is a command that the driver must not send twice. By default the driver sends a command
// up to four times when connections break, and an INCR whose answer was lost counts four times. A
// driver's Client honours NoRetry; its cluster and ring clients do not.
type noRetry struct{ *driver.Cmd }

// NoRetry implements the driver's Cmder.
func (noRetry) NoRetry() bool { return true }

// process sends a command once.
func process(ctx context.Context, db *driver.Client, args []any) (any, error) {
	cmd := driver.NewCmd(ctx, args...)
	_ = db.Process(ctx, noRetry{cmd})
	return cmd.Result()
}

// callError adds to an error what became of the call: ErrNotRun, ErrUnknown, or a refusal. A client
// for a term (store/redisstore.NewClient) has added that already.
func callError(err error, c fence.Claim) error {
	switch _, answered := errors.AsType[driver.Error](err); {
	case err == nil, errors.Is(err, ErrNotRun), errors.Is(err, ErrUnknown):
		return err
	case Unsent(err), refusedBeforeRun(err):
		return fmt.Errorf("%w: %w", ErrNotRun, err)
	case !answered:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return refusedIn(err, c)
}

// refusedIn explains an error reply of a guard or of Redis. A guard that ends a session sends its
// stale error in the place of the answer to whatever was under way, which may have been run just
// before.
func refusedIn(err error, c fence.Claim) error {
	refused := RefusalIn(err, c)
	switch {
	case refused == nil:
		return Explain(err)
	case refused.Reason == fence.ErrStale:
		return fmt.Errorf("%w: %w", ErrUnknown, refused)
	}
	return refused
}

// Unsent reports whether the call got no connection.
func Unsent(err error) bool {
	return notDialed(err) || errors.Is(err, driver.ErrPoolTimeout) ||
		errors.Is(err, driver.ErrPoolExhausted) || errors.Is(err, driver.ErrClosed)
}

// refusedBeforeRun reports whether Redis answered before it ran anything, and may run it later.
func refusedBeforeRun(err error) bool {
	return !inScript(err) && (driver.HasErrorPrefix(err, "BUSY ") ||
		driver.IsLoadingError(err) || driver.IsMaxClientsError(err))
}

// inScript reports whether the error came up inside a script. What the script had written stays.
func inScript(err error) bool { return strings.Contains(err.Error(), "user_script") }
