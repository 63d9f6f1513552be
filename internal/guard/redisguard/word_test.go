package redisguard

import (
	"fmt"
	"slices"
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
	t.Parallel()
	g := fresh(t)
	r := g.fenced(5)
	for name, rule := range eachCommand() {
		if !rule.refused {
			continue
		}
		words := strings.Split(name, "|")
		for _, hidden := range hidden(words[len(words)-1]) {
			r.says(array(append(slices.Clone(words[:len(words)-1]), hidden, "SET", "x")...), "-NOTALLOWED ")
		}
	}
	r.says(array("ACL\x00", "LOG\x00", "reset\x00"), "-NOTALLOWED ")
	r.says(array("ACL", "LOG", "reset\x00x")+array("CLIENT", "TRACKING", "ON", "redirect\x00", "1"),
		"-NOTALLOWED ", "-NOTALLOWED ")
	r.says(array("FENCE\x00", "orders", "6")+array("\x00GET", "a")+array("GET\x00", "a"),
		"-NOTALLOWED ", "-NOTALLOWED ", "-NOTALLOWED ")
	r.says(array("FLUSHALL\x00x", strings.Repeat("x", 2*relay.BufferSize)), "-NOTALLOWED ")
	long := "\x00" + strings.Repeat("x", 2*relay.BufferSize)
	for _, words := range [][]string{
		{"FLUSHALL" + long}, {"AUTH" + long, "bob", "pw"}, {"RESET" + long},
		{"CLIENT", "KILL" + long, "ID", "4"},
		{"CONFIG", "SET" + long, "a", "b"}, {"ACL", "LOG", "RESET" + long},
		{"SCRIPT", "DEBUG", "YES" + long},
		{"CLIENT", "TRACKING", "ON", "PREFIX", "x" + long, "REDIRECT", "1"},
	} {
		r.says(array(words...), "-NOTALLOWED ")
	}
	early := g.raw()
	early.says(array("SET\x00", "a", "b"), "-NOTALLOWED ")
	early.says(array("FENCE\x00", "orders", "6"), "-NOTALLOWED ")
}

func TestNobodyReplacesTheFunctionsThroughAGuard(t *testing.T) {
	t.Parallel()
	r := fresh(t).fenced(5)
	const code = "\nredis.register_function('ringfence_x', function() return 1 end)"
	for _, words := range [][]string{
		{"FUNCTION", "FLUSH"}, {"FUNCTION", "RESTORE", "x", "FLUSH"}, {"FUNCTION", "DELETE", "ringfence"},
		{"FUNCTION", "LOAD", "REPLACE", "#!lua name=ringfence" + code}, {"function", "load", "#!lua  " +
			"NAME=ringfence" + code},
		{"FUNCTION", "LOAD", `#!lua name="ringfence"` + code}, {"FUNCTION", "LOAD", "#!lua " +
			"name=ringfence" + code + strings.Repeat(" ", relay.BufferSize)},
	} {
		r.says(array(words...), "-NOTALLOWED ")
	}
	r.says(array("FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('other', function() "+
		"return 1 end)"), "$5")
}

// Without this the test above would prove nothing.
func TestRedisTakesAWordWithAZeroByteForAnother(t *testing.T) {
	t.Parallel()
	r := dialRaw(t, fresh(t).server.Addr())
	r.says(array("ACL", "LOG", "RESET\x00"), "+OK")
	for i := 0; ; i++ { // Redis finds it after some hundred tries, Valkey after some ten thousand
		r.send(array(fmt.Sprintf("FLUSHALL\x00%d", i)))
		if r.reply() == "+OK\r\n" {
			return
		}
	}
}
