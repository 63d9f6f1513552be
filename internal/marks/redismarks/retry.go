package redismarks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/network/backoff"
)

// maxBroken is how many broken connections retry tolerates in one call.
const maxBroken = 20

// retry repeats a call while the server is busy with a script or loads its data, and up to
// maxBroken times when the connection broke: another guard may be ending every connection. The call
// must be one that may be repeated. If ctx ends first, retry returns ctx's error together with the
// server's.
func retry(ctx context.Context, call func() error) error {
	broken := 0
	for wait := firstPause; ; wait = nextPause(wait) {
		err := call()
		switch {
		case err == nil:
			return nil
		case isBroken(err):
			if broken++; broken > maxBroken {
				return err
			}
		case !isBusy(err):
			return err
		}
		if ended := pause(ctx, wait); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// isBusy reports whether the server is busy, loading or full, and will answer later.
func isBusy(err error) bool {
	return driver.HasErrorPrefix(err, "BUSY") || driver.IsLoadingError(err) ||
		driver.IsMaxClientsError(err)
}

// isBroken reports whether a connection was ended during a call, or before it could serve. An error
// of dialing does not count: then the server is down.
func isBroken(err error) bool {
	if notDialed(err) {
		return false
	}
	return errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// notDialed reports whether no connection could be opened.
func notDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// firstPause is the wait before the second try.
const firstPause = 2 * time.Millisecond

// nextPause doubles the wait between two tries, up to 100 ms.
func nextPause(d time.Duration) time.Duration { return min(2*d, 100*time.Millisecond) }

// pause waits about d, or until ctx ends, whose error it returns. The wait is random, so that
// guards that collide do not collide again.
func pause(ctx context.Context, d time.Duration) error {
	backoff.Pause(ctx, d/2+rand.N(d))
	return ctx.Err()
}
