package redis

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/refusal"
)

// admissions are those that are under way in this guard. Redis runs one command at a time, and an
// admission needs nine answers of it. So a client without a token sends no long read meanwhile: one
// that runs already cannot be stopped, but it is the last one of this client.
type admissions struct {
	mu  sync.Mutex
	all map[chan struct{}]bool // closed when the admission has ended
}

// begin adds an admission until end is called.
func (a *admissions) begin() (end func()) {
	ended := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[chan struct{}]bool)
	}
	a.all[ended] = true
	return func() {
		close(ended)
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.all, ended)
	}
}

// before returns the admissions that are under way. A reader waits for these and for no later ones, so
// leaders that connect all the time do not keep it waiting for ever.
func (a *admissions) before() []chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.all))
}

// giveWay waits, before a command of a client without a token, until the admissions that are under way
// have ended. Each has a deadline. Meanwhile the client may be evicted.
func (c *conn) giveWay(ctx context.Context, args [][]byte) error {
	if isShort(args[0]) && !equalFold(args[0], "EXEC") { // EXEC runs a whole transaction
		return nil
	}
	for _, ended := range c.p.admissions.before() {
		select {
		case <-ended:
		case <-c.client.Draining.Done():
			return c.closeWith(errDraining)
		case <-ctx.Done():
			if evicted(ctx) {
				return guard.Evicted
			}
			return context.Cause(ctx)
		}
	}
	return nil
}

// shortReads take no time that anybody would notice: Redis flags them as fast.
var shortReads = list(`GET MGET STRLEN EXISTS TOUCH TTL PTTL EXPIRETIME PEXPIRETIME TYPE DBSIZE
	HGET HMGET HLEN HEXISTS HSTRLEN HTTL HPTTL HEXPIRETIME HPEXPIRETIME LLEN
	SCARD SISMEMBER SMISMEMBER ZCARD ZSCORE ZMSCORE ZRANK ZREVRANK ZCOUNT ZLEXCOUNT XLEN GETBIT BITFIELD_RO`)

// isShort reports whether a command that a client without a token may send is no long read.
func isShort(name []byte) bool {
	n := upper(nil, name)
	return shortReads[string(n)] || subscribes[string(n)] || harmless[string(n)]
}

// maxLong is how many long reads a transaction without a token may have: Redis runs nothing else
// until it is through.
const maxLong = 16

// tooMuchAtOnce refuses a long read where the guard cannot hold back what comes after it.
func (c *conn) tooMuchAtOnce(args [][]byte) *fence.Refusal {
	if !c.multi || isShort(args[0]) {
		return nil
	}
	if c.long++; c.long <= maxLong {
		return nil
	}
	return refusal.LongWithoutToken(commandName(args), "a transaction without a token has 16 long reads at most")
}

// combining are the reads whose time grows with the product of the data and the number of arguments.
var combining = list("SINTER SUNION SDIFF SINTERCARD ZINTER ZUNION ZDIFF ZINTERCARD SORT_RO XREAD")

// argumentsOfReader is how many arguments such a read may have without a token.
const argumentsOfReader = 32

// matching are the reads that compare names with a pattern. Each * multiplies the time, and before Redis
// 7.0.9 there was no limit.
var matching = list("KEYS SCAN HSCAN SSCAN ZSCAN COMMAND")

// starsOfReader is how many * the pattern of a reader may have.
const starsOfReader = 8

// growsFaster reports whether a read can take much longer than one look at the data.
func growsFaster(args [][]byte) bool {
	name := string(upper(nil, args[0]))
	switch {
	case name == "LCS": // the product of two lengths
		return true
	case combining[name]:
		return len(args) > argumentsOfReader
	case matching[name]:
		return slices.ContainsFunc(args, func(arg []byte) bool {
			return bytes.Count(arg, []byte("*")) > starsOfReader
		})
	}
	return false
}
