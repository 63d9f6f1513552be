package redis

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

var runScript = NewScript(luaText("run"))

// wordsMost is how many words a command may have: Lua calls with fewer than 8,000 arguments.
const wordsMost = 7000

// Run runs commands under a claim, in one script: each sees the mark at the claim, and no raise comes between them. A
// command is its words, which the driver sends as it would itself, such as {"INCRBY", "balance", -5}. It returns one
// reply per command: nil, text, int64 or a list, or an error in the place of a command that failed. As in MULTI/EXEC the
// others were run all the same.
//
// Replies are those of RESP2, and an integer passes Lua: above 2^53 it is rounded in the reply, not in Redis. Commands
// that Redis keeps from scripts, such as SUBSCRIBE and WAIT, fail; blocking ones do not block. Everybody waits for the
// whole list, so keep it short. db is for the database that has the marker, and its user needs what RunACL says.
//
// Errors are those of Script.Run, and after all but ErrUnknown nothing was written.
func Run(ctx context.Context, db *driver.Client, c fence.Claim, commands ...[]any) ([]any, error) {
	args, err := flat(commands)
	if err != nil {
		return nil, fmt.Errorf("nothing was run: %w", err)
	}
	answer, err := runScript.Run(ctx, db, c, nil, args...)
	if err != nil {
		return nil, err
	}
	replies, _ := answer.([]any)
	if len(replies) != len(commands) {
		return replies, fmt.Errorf("%w: there are %d replies to %d commands", ErrUnknown, len(replies), len(commands))
	}
	return replies, nil
}

// flat puts before each command how many words it has.
func flat(commands [][]any) ([]any, error) {
	if len(commands) == 0 {
		return nil, errors.New("there is no command")
	}
	var args []any
	for i, command := range commands {
		if len(command) == 0 || len(command) > wordsMost {
			return nil, fmt.Errorf("command %d has %d words: give 1 to %d", i+1, len(command), wordsMost)
		}
		args = append(append(args, len(command)), command...)
	}
	return args, nil
}
