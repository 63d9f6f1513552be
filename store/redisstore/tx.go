package redisstore

import (
	"context"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

// The errors of a call under a claim that Redis did not answer.
var (
	// ErrNotRun: Redis was out of reach, or busy until ctx ended. Nothing was run, so the call may
	// be repeated. It matches fence.ErrNotDone.
	ErrNotRun = redismarks.ErrNotRun
	// ErrUnknown: the answer was lost. All of the call was run, or none of it, or it is still on
	// its way. If it arrives late, the fence decides whether it counts. Check before you repeat it. It
	// matches fence.ErrUnknown.
	ErrUnknown = redismarks.ErrUnknown
)

// Tx is commands that run together under a claim, in one script: all of them run while the mark is
// the claim's, and no raise comes between them. The zero value has none. Do and Exec must not be
// called at the same time.
type Tx struct{ commands [][]any }

// Do adds a command: its name and arguments, such as "INCRBY", "balance", -5. The driver encodes
// arguments as in any other command. Do returns the Tx.
func (tx *Tx) Do(command ...any) *Tx {
	tx.commands = append(tx.commands, command)
	return tx
}

// Exec runs the commands. It returns one reply per command: nil, text, int64 or a list, or an error
// in the place of a command that failed. As in MULTI/EXEC, the other commands still run. Exec may
// be called again, for instance in fence.Claim.RetryRaised.
//
// Replies are those of RESP2. Integers pass through Lua: one above 2^53 is rounded in the reply,
// not in Redis. Commands that Redis does not allow in scripts, such as SUBSCRIBE and WAIT, fail.
// Blocking commands do not block. All other clients of the server wait for the whole list, so keep
// it short. The client's user needs the rights that guard install --print shows.
//
// Errors are those of Script.Run. After all but ErrUnknown nothing was written.
func (tx *Tx) Exec(ctx context.Context, db *driver.Client, c fence.Claim) ([]any, error) {
	return redismarks.Run(ctx, db, c, tx.commands...)
}

// Script is Lua that runs under a claim. The server checks the mark and runs the script atomically.
type Script struct{ script *redismarks.Script }

// NewScript puts the check of the mark before a script. In the script, ARGV[1] to ARGV[3] are the
// claim's resource, token and issuer, and the script's own arguments begin at ARGV[4]. KEYS are its
// own. The token is text: a Lua number would lose digits.
func NewScript(lua string) *Script { return &Script{redismarks.NewScript(lua)} }

// Run runs the script under the claim and returns its result. If the result is an error of Redis,
// Run returns it as the error. It sends the script once, whatever the client's MaxRetries. While
// Redis is busy or loads its data, Run waits, until ctx ends.
//
// Refusals: ErrStale, ErrOtherIssuer, ErrNotInstalled. ErrNotRaised: the mark is not raised to the
// claim, may have been lost, or older sessions are not revoked yet; fence.Claim.RetryRaised raises
// the mark and tries again. After a refusal and after ErrNotRun nothing was run. After ErrUnknown
// everything was run, or nothing. Any other error is about rights or settings, or comes from the
// script itself; what the script had written before it stays.
func (s *Script) Run(
	ctx context.Context, db *driver.Client, c fence.Claim, keys []string, args ...any,
) (any, error) {
	return s.script.Run(ctx, db, c, keys, args...)
}

// Explain turns an error reply of a guard or Redis into a *fence.Refusal, so that errors.Is(err,
// fence.ErrStale) works, or into a *fence.SetupError, which says what an operator has to do. It
// returns other errors unchanged.
func Explain(err error, c fence.Claim) error {
	return redismarks.Explain(redismarks.Refused(err, c))
}
