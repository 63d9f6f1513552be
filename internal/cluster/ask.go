package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
)

// Ask repeats a round trip until a member answers: for the request timeout, or until ctx ends or
// the Client is closed. try must be safe to repeat, because an attempt without an answer may have
// taken effect. Ask returns a *fence.Refusal of try at once. what is for the error, which matches
// ErrUnreachable if nobody answered.
func Ask[T any](
	ctx context.Context, c *Client, what string, try func(context.Context) (T, error),
) (T, error) {
	var none T
	if c.ctx.Err() != nil {
		return none, ErrClosed
	}
	ctx, stop := c.WithEnd(ctx)
	defer stop()
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var last error
	for failures := 1; ; failures++ {
		answer, err := attempt(bounded, c.timeout/2, try)
		switch {
		case err == nil:
			return answer, nil
		case isRefusal(err):
			return none, err
		case Refused(err):
			return none, fmt.Errorf("%s: etcd refuses: %w", what, err)
		case errors.Is(err, rpctypes.ErrLeaseNotFound), errors.Is(err, ErrGone):
			return none, fmt.Errorf("%s: %w", what, err)
		case bounded.Err() == nil || last == nil:
			last = err
		}
		backoff.Pause(bounded, backoff.After(failures, 20*time.Millisecond, time.Second))
		switch {
		case ctx.Err() != nil:
			return none, fmt.Errorf("%s: %s (%w)", what, c.failure(last), context.Cause(ctx))
		case bounded.Err() != nil:
			return none, fmt.Errorf("%s: %w within %s (%s)", what, ErrUnreachable, c.timeout, c.failure(last))
		}
	}
}

// failure returns the last failure, for an error. That an attempt has run out of time says nothing more.
func (c *Client) failure(last error) string {
	if errors.Is(last, context.DeadlineExceeded) || errors.Is(last, context.Canceled) {
		return "no answer of " + c.Hosts
	}
	return fmt.Sprintf("last failure at %s: %v", c.Hosts, explain(last))
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*fence.Refusal](err)
	return ok
}

// attempt bounds one round trip.
func attempt[T any](
	ctx context.Context, limit time.Duration, try func(context.Context) (T, error),
) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return try(ctx)
}

// Refused reports an error that retrying cannot fix. The request had no effect.
func Refused(err error) bool {
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty),
		errors.Is(err, rpctypes.ErrPermissionDenied),
		errors.Is(err, rpctypes.ErrAuthNotEnabled), errors.Is(err, rpctypes.ErrTooManyOps),
		errors.Is(err, clientv3.ErrNoAvailableEndpoints), errors.Is(err, ErrIssuer),
		errors.Is(err, ErrShared):
		return true
	}
	s, ok := status.FromError(err)
	return ok && (s.Code() == codes.PermissionDenied || s.Code() == codes.Unimplemented)
}

// Calm makes what follows last 20 ms at least: a member that has lost its leader cancels each watch
// at once.
func Calm(ctx context.Context) (end func()) {
	earliest := time.Now().Add(20 * time.Millisecond)
	return func() { backoff.Pause(ctx, time.Until(earliest)) }
}
