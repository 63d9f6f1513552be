package redisguard

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// failingObserver is an unreachable coordinator whose error tries to forge a reply.
type failingObserver struct{}

var errUnreachable = errors.New("unreachable\r\n-ERR forged")

func (*failingObserver) Issuer(context.Context) (fence.Issuer, error) { return "", errUnreachable }

func (*failingObserver) Candidates(context.Context, fence.Resource) ([]elector.Candidate, error) {
	return nil, errUnreachable
}

func (*failingObserver) Leaders(
	context.Context, ...fence.Resource,
) (fence.Issuer, []elector.Candidate, error) {
	return "", nil, errUnreachable
}

func (*failingObserver) Watch(
	context.Context, fence.Resource, func([]elector.Candidate) error,
) error {
	return errUnreachable
}
