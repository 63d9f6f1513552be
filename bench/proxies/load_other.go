//go:build !linux

package proxies

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/bench/internal/ways"
)

func (l load) run(context.Context, *ways.Way) (outcome, error) {
	return outcome{}, errors.New("the load on Redis needs Linux (epoll)")
}
