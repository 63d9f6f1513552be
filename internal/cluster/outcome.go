package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TooLarge reports a refusal because of the request's size. A member refuses it itself, or its gRPC
// server does, if it is larger still. The request had no effect.
func TooLarge(err error) bool {
	if errors.Is(err, rpctypes.ErrRequestTooLarge) {
		return true
	}
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "larger than max")
}

// ErrNoSpace is etcd's error when it has no space left, with what to do. The write may be applied in
// spite of it.
var ErrNoSpace = fmt.Errorf("%w: compact and defragment etcd, then disarm its alarm",
	rpctypes.ErrNoSpace)

// explain adds to an error what to do if etcd has no space left.
func explain(err error) error {
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return ErrNoSpace
	}
	return err
}

// Unclear adds to the error of a request that may have had an effect why ctx, under which it was
// sent, has ended, and what to do if etcd has no space left.
func Unclear(ctx context.Context, err error) error {
	err = explain(err)
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
