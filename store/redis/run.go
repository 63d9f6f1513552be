package redis

import (
	"context"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	marks "github.com/ringfence/ringfence/internal/marks/redis"
)

// What became of a call under a claim that Redis did not answer.
var (
	// ErrNotRun: Redis was out of reach, or busy until ctx ended. Nothing was run: the call may be repeated.
	ErrNotRun = marks.ErrNotRun
	// ErrUnknown: the answer was lost. All of it was run or nothing, or it is still to be: what is on its way arrives
	// late, and the fence alone says whether it then counts. Look before you repeat.
	ErrUnknown = marks.ErrUnknown
)

// Run runs commands under a claim, in one script: each sees the mark at the claim, and no raise comes between them. A
// command is its words, which the driver sends as it would itself, such as {"INCRBY", "balance", -5}. It returns one
// reply per command: nil, text, int64 or a list, or an error in the place of a command that failed. As in MULTI/EXEC the
// others were run all the same.
//
// Replies are those of RESP2, and an integer passes Lua: above 2^53 it is rounded in the reply, not in Redis. Commands
// that Redis keeps from scripts, such as SUBSCRIBE and WAIT, fail; blocking ones do not block. Everybody waits for the
// whole list, so keep it short. The client's user needs the rights that guard install --print shows.
//
// Errors are those of Script.Run, and after all but ErrUnknown nothing was written.
func Run(ctx context.Context, db *driver.Client, c fence.Claim, commands ...[]any) ([]any, error) {
	return marks.Run(ctx, db, c, commands...)
}

// Script is Lua that runs under a claim: the check of the mark and all that it does are one act of the server.
type Script struct{ script *marks.Script }

// NewScript puts the check before a script. In the script, ARGV[1] to ARGV[3] are the claim's resource, token and issuer,
// and its own arguments begin at ARGV[4]; KEYS are its own. A token is text there: as a Lua number it would lose digits.
func NewScript(lua string) *Script { return &Script{marks.NewScript(lua)} }

// Run runs the script under the claim and returns what it returns; an error of Redis in that place is returned as the
// error. It is sent once, whatever the client's MaxRetries. While Redis is busy or loads its data, Run waits, for as long
// as ctx lets it.
//
// Refusals: ErrStale, ErrOtherIssuer, ErrNotInstalled; ErrNotLeader when the mark is not raised to the claim, may have
// been lost, or older sessions are not revoked yet: fence.Raising raises it and tries again. After a refusal and after
// ErrNotRun nothing was run; after ErrUnknown all or nothing. Any other error is of the script itself, and what it had
// written before the error stays; or of rights and settings.
func (s *Script) Run(ctx context.Context, db *driver.Client, c fence.Claim, keys []string, args ...any) (any, error) {
	return s.script.Run(ctx, db, c, keys, args...)
}

// Explain says what an error that a guard or Redis answered means: a *fence.Refusal, so that errors.Is(err,
// fence.ErrStale) works, or what an operator has to do. Others come back as they are.
func Explain(err error, c fence.Claim) error { return marks.Explain(marks.Refused(err, c)) }
