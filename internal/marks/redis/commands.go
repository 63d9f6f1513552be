package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/refusal"
)

// Reads asks the server for its commands and returns those that cannot write, in upper case, modules'
// commands among them. A subcommand is CONTAINER|SUBCOMMAND; a container without known subcommands is
// there by itself. It takes the right +command. A *fence.SetupError says that the user lacks it.
//
// A command counts only if the server flags it as readonly and not as write, and if it is no script
// and none of its keys may be changed: PFCOUNT is flagged as readonly, and may replicate a key.
func (s *Store) Reads(ctx context.Context) (map[string]bool, error) {
	var list []any
	err := retry(ctx, func() (err error) {
		list, err = s.db.Do(ctx, "COMMAND").Slice()
		return err
	})
	if err != nil && denied(err) {
		return nil, refusal.Setup("the guard's user may not run COMMAND, so the guard cannot tell reads from writes",
			"run: ACL SETUSER … +command (guard install --print shows the whole rule)")
	}
	if err != nil {
		return nil, Explain(err)
	}
	reads := make(map[string]bool)
	for _, entry := range list {
		addRead(reads, entry)
	}
	if len(reads) == 0 {
		return nil, errors.New("redis lists no command that only reads (COMMAND)")
	}
	return reads, nil
}

// The fields of a command in the answer to COMMAND. Redis before 7.0 has only the first seven.
const (
	commandName       = 0
	commandFlags      = 2
	commandCategories = 6
	commandKeySpecs   = 8
	commandSubs       = 9
)

func addRead(reads map[string]bool, entry any) {
	fields, _ := entry.([]any)
	if len(fields) <= commandCategories {
		return
	}
	if len(fields) > commandSubs {
		if subs, _ := fields[commandSubs].([]any); len(subs) > 0 {
			for _, sub := range subs {
				addRead(reads, sub)
			}
			return // the container itself says nothing
		}
	}
	flags, categories := texts(fields[commandFlags]), texts(fields[commandCategories])
	var keys []string
	if len(fields) > commandKeySpecs {
		keys = texts(fields[commandKeySpecs])
	}
	isRead := slices.Contains(flags, "readonly") && !slices.Contains(categories, "@scripting") &&
		!hasAny(flags, "write", "admin", "may_replicate", "may-replicate") && !hasAny(keys, "RW", "OW", "RM")
	name := strings.ToUpper(fmt.Sprint(fields[commandName]))
	if isRead && name != "PFCOUNT" {
		reads[name] = true
	}
}

func hasAny(list []string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
}

// texts returns the texts in a list, and in the lists in it.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			all = append(all, texts(e)...)
		}
	}
	return all
}
