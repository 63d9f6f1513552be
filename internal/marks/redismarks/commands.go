package redismarks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/refusal"
)

// Commands are the names of commands that clients of a guard may send, in upper case. The value
// says whether a module may have registered the command.
type Commands map[string]bool

// checkCommands refuses a server that runs another command under one of these names, or that lacks
// a command that a store itself needs: its configuration may have renamed or removed commands
// (rename-command). Redis finds a command by its new name, and then shows it under its own.
func checkCommands(ctx context.Context, c *driver.Conn, all Commands) error {
	asked := neededCommands()
	for name := range all {
		asked[name] = true
	}
	names := slices.Sorted(maps.Keys(asked))
	args := []any{"COMMAND", "INFO"}
	for _, name := range names {
		args = append(args, name)
	}
	entries, err := c.Do(ctx, args...).Slice()
	if err != nil {
		return Explain(fmt.Errorf("COMMAND INFO: %w", err))
	}
	if len(entries) != len(names) {
		return refusal.Setup("the upstream does not answer COMMAND INFO as Redis does", renameHint)
	}
	return judgeCommands(names, entries, all)
}

func judgeCommands(names []string, entries []any, all Commands) error {
	var lost, others, modules []string
	needed := neededCommands()
	for i, name := range names {
		own, isModules := entryOf(entries[i])
		switch mayBeModules, passes := all[name]; {
		case own == "" && needed[name]:
			lost = append(lost, name)
		case own != "" && own != name:
			others = append(others, fmt.Sprintf("%s under the name %s", own, name))
		case isModules && passes && !mayBeModules:
			modules = append(modules, name)
		}
	}
	switch {
	case len(others) > 0:
		return refusal.Setup("the upstream runs "+strings.Join(others, ", ")+" (rename-command)",
			renameHint)
	case len(lost) > 0:
		return refusal.Setup("the upstream lacks "+strings.Join(lost, ", ")+
			": its configuration renames or removes them (rename-command), or it is older than Redis 6.2",
			renameHint)
	case len(modules) > 0:
		return refusal.Setup("a module of the upstream has registered "+strings.Join(modules, ", ")+
			", which the guard knows as commands of Redis itself",
			"unload the module, or name the commands in GUARD_REDIS_TRUSTED_COMMANDS if they do no more "+
				"than those of Redis")
	}
	return nil
}

const renameHint = "remove rename-command from the server's configuration, and restart it; " +
	"let ACL rules say who may run which command"

// entryOf reads a command's own name, in upper case, and whether a module has registered it. The
// name is empty if the server has no such command.
func entryOf(entry any) (own string, isModules bool) {
	fields, _ := entry.([]any)
	if len(fields) < 3 {
		return "", false
	}
	flags, _ := fields[2].([]any)
	return strings.ToUpper(text(fields[0])), slices.Contains(flags, any("module"))
}

// neededCommands are those that a store runs, without what a connection begins with.
func neededCommands() map[string]bool {
	needed := make(map[string]bool)
	for _, right := range rights {
		name, _, _ := strings.Cut(strings.TrimPrefix(right, "+"), "|")
		if !slices.Contains([]string{"hello", "auth", "ping"}, name) {
			needed[strings.ToUpper(name)] = true
		}
	}
	return needed
}
