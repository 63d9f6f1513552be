package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/fence"
)

var (
	// errIssuer: Ringfence did not write the issuer's key.
	errIssuer = errors.New("not an issuer")
	// errNoIssuer: there is no issuer's key.
	errNoIssuer = errors.New("there is no issuer")
	// errGone: the candidate's key was deleted, or is another key by now.
	errGone = errors.New("the candidate's key is gone")
	// errShared: two candidates were created in one transaction, which Ringfence never does.
	errShared = errors.New("two candidates share one create revision")
	// errNoSpace is etcd's error when it has no space left. The write may be applied in spite of it.
	errNoSpace = fmt.Errorf("%w: its --quota-backend-bytes is used up; compact and defragment etcd, "+
		"then disarm its alarm",
		rpctypes.ErrNoSpace)
	// errOldRenewal: the member that renewed the lease may have been deposed by then.
	errOldRenewal = errors.New("etcd has elected another leader, which may not know of the renewal")
	// errLeaseOver: etcd has ended the lease of a session: it was revoked, or ran out.
	errLeaseOver = fmt.Errorf("%w: etcd has ended the lease", fence.ErrExpired)
)

// refused reports an error that retrying cannot fix. The request had no effect.
func refused(err error) bool {
	for _, final := range []error{rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty,
		rpctypes.ErrPermissionDenied,
		rpctypes.ErrAuthNotEnabled, rpctypes.ErrTooManyOps, clientv3.ErrNoAvailableEndpoints, errIssuer,
		errShared} {
		if errors.Is(err, final) {
			return true
		}
	}
	s, ok := status.FromError(err)
	return ok && (s.Code() == codes.PermissionDenied || s.Code() == codes.Unimplemented)
}

// ends reports that the lease or the candidate is gone.
func ends(err error) bool {
	return errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, errGone)
}

// failure explains the last failure of a call. That an attempt has run out of time says nothing
// more.
func failure(hosts string, last error) error {
	if errors.Is(last, context.DeadlineExceeded) || errors.Is(last, context.Canceled) {
		return fmt.Errorf("no answer of %s", hosts)
	}
	return fmt.Errorf("last failure at %s: %v", hosts, explain(last))
}

// tooLarge reports a refusal because of the request's size. A member refuses it itself, or its gRPC
// server does, if it is larger still. The request had no effect.
func tooLarge(err error) bool {
	if errors.Is(err, rpctypes.ErrRequestTooLarge) {
		return true
	}
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.ResourceExhausted &&
		strings.Contains(s.Message(), "larger than max")
}

// explain adds to an error which limit of etcd has been reached.
func explain(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return errNoSpace
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: raise etcd's --max-txn-ops (128 by default)", err)
	case tooLarge(err):
		return fmt.Errorf("%w: raise etcd's --max-request-bytes (1.5 MiB by default)", err)
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return fmt.Errorf("%w: etcd is 5000 changes behind; is its disk fast enough?", err)
	}
	return err
}
