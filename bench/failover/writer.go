package failover

import (
	"context"
	"errors"
	"strconv"
	"time"

	driver "github.com/redis/go-redis/v9"
)

const (
	list      = "written"
	patience  = 500 * time.Millisecond // of one write
	pause     = 2 * time.Millisecond   // between two
	before    = 2 * time.Second        // the event
	afterward = 15 * time.Second       // a former primary may take ten seconds to be demoted
)

// written is what a writer was told.
type written struct {
	acknowledged []int
	outage       time.Duration // the longest time between two acknowledgements
}

// write appends numbers to a list, one by one. In between it calls event.
func write(ctx context.Context, db *driver.Client, event func() error) (*written, error) {
	w := &written{}
	var last time.Time
	begin := time.Now()
	happened := false
	for n := 0; time.Since(begin) < before+afterward; n++ {
		if !happened && time.Since(begin) > before {
			happened = true
			if err := event(); err != nil {
				return nil, err
			}
		}
		if one(ctx, db, n) == nil {
			now := time.Now()
			if !last.IsZero() {
				w.outage = max(w.outage, now.Sub(last))
			}
			last = now
			w.acknowledged = append(w.acknowledged, n)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if time.Since(last) > patience {
		return nil, errors.New("nothing is acknowledged any more")
	}
	return w, nil
}

func one(ctx context.Context, db *driver.Client, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return db.RPush(ctx, list, n).Err()
}

// missing returns how many of the acknowledged numbers are not in the list.
func (w *written) missing(kept []string) (n int) {
	there := make(map[string]bool)
	for _, text := range kept {
		there[text] = true
	}
	for _, a := range w.acknowledged {
		if !there[strconv.Itoa(a)] {
			n++
		}
	}
	return n
}

// guardOptions are a driver's that claims the resource on each connection.
func guardOptions(addr string) *driver.Options {
	return &driver.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 1,
		OnConnect: func(ctx context.Context, c *driver.Conn) error {
			return c.Do(ctx, "FENCE", "orders", 5).Err()
		},
	}
}
