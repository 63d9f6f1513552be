package redismarks

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

var runScript = NewScript(luaText("commands") + luaText("run"))

// maxCommand limits a command's name and arguments. A Lua call takes fewer than 8,000.
const maxCommand = 7000

// Run implements store/redisstore.Tx. db is a client of the server that has the marker. Its user
// needs the rights in RunACL.
func Run(ctx context.Context, db *driver.Client, c fence.Claim, commands ...[]any) ([]any, error) {
	args, err := flatten(commands)
	if err != nil {
		return nil, fmt.Errorf("nothing was run: %w", err)
	}
	answer, err := runScript.Run(ctx, db, c, nil, args...)
	if err != nil {
		return nil, err
	}
	replies, _ := answer.([]any)
	if len(replies) != len(commands) {
		return replies, fmt.Errorf("%w: there are %d replies to %d commands",
			ErrUnknown, len(replies), len(commands))
	}
	return replies, nil
}

// flatten joins the commands to one list, each after its length.
func flatten(commands [][]any) ([]any, error) {
	if len(commands) == 0 {
		return nil, errors.New("there is no command")
	}
	var args []any
	for i, command := range commands {
		if len(command) == 0 || len(command) > maxCommand {
			return nil, fmt.Errorf("command %d has %d words: give 1 to %d",
				i+1, len(command), maxCommand)
		}
		args = append(append(args, len(command)), command...)
	}
	return args, nil
}
