package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/guard/relay"
)

// hidden are names that Redis may take for this one.
func hidden(name string) (all []string) {
	for i := range 30 {
		all = append(all, fmt.Sprintf("%s\x00%d%s", strings.ToLower(name), i, strings.Repeat("x", i)))
	}
	return all
}

func TestAZeroByteHidesNoWord(t *testing.T) {
	g := fresh(t)
	r := g.fenced(5)
	for name, rule := range rules {
		for _, name := range hidden(name) {
			if rule.never != "" || rule.allow != nil {
				r.says(array(name, "SET", "x"), "-NOTALLOWED ")
			}
		}
		for sub := range rule.deny {
			for _, sub := range hidden(sub) {
				r.says(array(name, sub, "x"), "-NOTALLOWED ")
			}
		}
	}
	r.says(array("ACL\x00", "LOG\x00", "reset\x00"), "-NOTALLOWED ")
	r.says(array("FENCE\x00", "orders", "6"), "-BADTOKEN ")
	r.says(array("FLUSHALL\x00x", strings.Repeat("x", 2*relay.BufferSize)), "-NOTALLOWED ")
	long := "\x00" + strings.Repeat("x", 2*relay.BufferSize)
	for _, words := range [][]string{
		{"FLUSHALL" + long}, {"AUTH" + long, "bob", "pw"}, {"RESET" + long}, {"CLIENT", "KILL" + long, "ID", "4"},
		{"CONFIG", "SET" + long, "a", "b"}, {"ACL", "LOG", "RESET" + long},
	} {
		r.says(array(words...), "-NOTALLOWED ")
	}
	early := g.raw()
	early.says(array("XREAD", "BLOCK\x00", "0", "STREAMS", "s", "$"), "-NOTOKEN ")
	early.says(array("SET\x00", "a", "b"), "-NOTOKEN ")
}

func TestNobodyReplacesTheFunctionsThroughAGuard(t *testing.T) {
	r := fresh(t).fenced(5)
	const code = "\nredis.register_function('ringfence_x', function() return 1 end)"
	for _, words := range [][]string{
		{"FUNCTION", "FLUSH"}, {"FUNCTION", "RESTORE", "x", "FLUSH"}, {"FUNCTION", "DELETE", "ringfence"},
		{"FUNCTION", "LOAD", "REPLACE", "#!lua name=ringfence" + code}, {"function", "load", "#!lua  NAME=ringfence" + code},
		{"FUNCTION", "LOAD", `#!lua name="ringfence"` + code}, {"FUNCTION", "LOAD", "#!lua name=ringfence" + code + strings.Repeat(" ", relay.BufferSize)},
	} {
		r.says(array(words...), "-NOTALLOWED ")
	}
	r.says(array("FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('other', function() return 1 end)"), "$5")
}

// Without this the test above would prove nothing.
func TestRedisTakesAWordWithAZeroByteForAnother(t *testing.T) {
	r := dialRaw(t, fresh(t).server.Addr())
	r.says(array("ACL", "LOG", "RESET\x00"), "+OK")
	for i := 0; ; i++ { // Redis finds it after some hundred tries, Valkey after some ten thousand
		r.send(array(fmt.Sprintf("FLUSHALL\x00%d", i)))
		if r.reply() == "+OK\r\n" {
			return
		}
	}
}
