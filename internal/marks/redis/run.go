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

// Run is store/redis.Run. db is for the database that has the marker, and its user needs what RunACL says.
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
