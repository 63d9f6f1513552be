package redisguard

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// eachCommand returns every command and subcommand of the table, in order.
func eachCommand() iter.Seq2[string, *rule] {
	return func(yield func(string, *rule) bool) {
		for _, name := range slices.Sorted(maps.Keys(rules)) {
			if !yield(name, rules[name]) {
				return
			}
			for _, sub := range slices.Sorted(maps.Keys(rules[name].subs)) {
				if !yield(name+"|"+sub, rules[name].subs[sub]) {
					return
				}
			}
		}
	}
}

// described is a command as COMMAND describes it.
type described struct {
	name  string
	marks []string // flags, and categories of the ACL
	subs  []any
}

func describe(entry any) described {
	fields := entry.([]any)
	d := described{name: strings.ToUpper(fields[0].(string))}
	for _, list := range []int{2, 6} {
		for _, mark := range fields[list].([]any) {
			d.marks = append(d.marks, mark.(string))
		}
	}
	if len(fields) > 9 {
		d.subs = fields[9].([]any)
	}
	return d
}

// commandsOf returns every command and subcommand of a server.
func commandsOf(t *testing.T, db *driver.Client) (all []described) {
	t.Helper()
	list, err := db.Do(t.Context(), "COMMAND").Slice()
	if err != nil || len(list) < 200 {
		t.Fatalf("%d commands, %v", len(list), err)
	}
	for _, entry := range list {
		d := describe(entry)
		all = append(all, d)
		for _, sub := range d.subs {
			all = append(all, describe(sub))
		}
	}
	return all
}

func ruleNamed(name string) *rule {
	words := strings.Split(name, "|")
	args := [][]byte{[]byte(words[0])}
	if len(words) > 1 {
		args = append(args, []byte(words[1]))
	}
	return ruleFor(args)
}

// The table has every command of the server, and agrees with what the server says of it.
func TestTheTableHasEveryCommandOfTheServer(t *testing.T) {
	t.Parallel()
	db := driverTo(t, serverstest.SharedRedis(t).Addr(), nil)
	for _, d := range commandsOf(t, db) {
		r := ruleNamed(d.name)
		if r == nil {
			t.Errorf("commands.txt lacks %s %v", d.name, d.marks)
			continue
		}
		has := func(mark string) bool { return slices.Contains(d.marks, mark) }
		delicate := has("admin") || has("@dangerous") || has("blocking")
		if !r.refused && delicate && r.note == "" {
			t.Errorf("%s passes without a note, and is %v", d.name, d.marks)
		}
		if r.early &&
			(has("write") || has("blocking") || has("may_replicate") || has("admin") || has("pubsub")) {
			t.Errorf("%s passes before the token, and is %v", d.name, d.marks)
		}
		if r.module != has("module") {
			t.Errorf("%s is a module's: %t; it is %v", d.name, r.module, d.marks)
		}
		ofTransactions := r.effect == opensTransaction || r.effect == closesTransaction
		if has("@transaction") != ofTransactions &&
			!slices.Contains([]string{"WATCH", "UNWATCH", "RESET"}, d.name) {
			t.Errorf("%s has the effect %d, and is %v", d.name, r.effect, d.marks)
		}
		if len(d.subs) > 0 && r.subs == nil {
			t.Errorf("%s has subcommands", d.name)
		}
	}
}

// What is refused has a reason, and each name is found in any case.
func TestTheTableIsComplete(t *testing.T) {
	t.Parallel()
	n := 0
	for name, r := range eachCommand() {
		n++
		if r.refused && r.note == "" || slices.ContainsFunc(r.forms, func(f form) bool {
			return f.why == ""
		}) {
			t.Errorf("%s is refused without a reason", name)
		}
		if r.refused && (r.early || r.effect != noEffect) {
			t.Errorf("%s is refused, and has effects", name)
		}
		if ruleNamed(strings.ToLower(name)) != r || ruleNamed(name) != r {
			t.Errorf("%s is not found", name)
		}
	}
	if lines := strings.Count(commandTable, "\n"); n < 380 || lines < n {
		t.Errorf("the table has only %d commands in %d lines", n, lines)
	}
	for _, name := range []string{"", "G", "GETX", "\x00GET", "GET\x00", "CLIENT|KILL", "FLUSHALL2",
		"MAINT_NOTIFICATIONS",
		strings.Repeat("x", 100), "[ET", "\xc7ET", "@ET"} {
		if r := ruleOf([]byte(name)); r != nil {
			t.Errorf("%q is found", name)
		}
	}
}

// A session with a token gets none of these through, each for a reason of its own.
func TestTheReasonFitsTheFormOfTheCommand(t *testing.T) {
	t.Parallel()
	r := fresh(t).fenced(5)
	for command, reason := range map[string]string{
		"SCRIPT DEBUG YES":                       "a fork that goes on without the session",
		"script debug sync":                      "all of Redis would wait",
		"SCRIPT DEBUG NO":                        "it is for a developer",
		"ACL LOG RESET":                          "the record of what users were refused",
		"ACL DELUSER bob":                        "ends the sessions of the user",
		"ACL SETUSER bob on":                     "could allow a user the marks",
		"CLIENT TRACKING ON BCAST REDIRECT 3":    "it would send messages to another session",
		"CLIENT PAUSE 1000":                      "no leader could be admitted",
		"CLIENT CAPA redirect":                   "lead this session round the guard",
		"CLIENT KILL ID 4":                       "end other sessions",
		"FUNCTION FLUSH":                         "remove the functions of ringfence",
		"FUNCTION DELETE ringfence":              "remove the functions of ringfence",
		"FUNCTION LOAD \"#!lua name=ringfence\"": "replace the functions of ringfence",
		"MIGRATE 10.0.0.1 6379 k 0 9999999":      "while it waits for the other server",
		"SAVE":                                   "until all data are on disk; BGSAVE passes",
		"PFSELFTEST":                             "busy for seconds",
		"FLUSHALL":                               "remove the marks",
		"FLUSHDB":                                "in database 0",
		"SWAPDB 1 0":                             "with database 0",
		"RESTORE-ASKING a 0 x":                   "the nodes of a cluster",
		"CLUSTER MEET 10.0.0.1 6379":             "no part of a cluster",
		"CLUSTER":                                "it has no subcommand",
		"CLIENT NOSUCH":                          "does not know this command",
		"XFLUSH":                                 "does not know this command",
		"JSON.SET a $ 1":                         "GUARD_REDIS_TRUSTED_COMMANDS",
		"GET ringfence:orders":                   "one of its arguments is the name of a key",
	} {
		r.send(command + "\r\n")
		if got := r.reply(); !strings.HasPrefix(got, "-NOTALLOWED ") || !strings.Contains(got, reason) {
			t.Errorf("%s: %q, want %q", command, got, reason)
		}
	}
	r.says("ACL LOG\r\nCLIENT TRACKING ON\r\nFUNCTION LIST\r\nPING\r\n", anyReply, "+OK", anyReply,
		"+PONG")
}

func BenchmarkJudge(b *testing.B) {
	t, err := parseTrusted([]string{"JSON.SET"})
	if err != nil {
		b.Fatal(err)
	}
	for _, command := range []string{
		"GET key:12345", "SET key:12345 xxx", "EVAL text 1 key:12345", "ZRANGEBYSCORE key 1 2",
		"CLIENT GETNAME",
		"JSON.SET key $ 1", "NOSUCH key",
	} {
		var args [][]byte
		for _, word := range strings.Fields(command) {
			args = append(args, []byte(word))
		}
		b.Run(strings.Fields(command)[0], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = t.judge(args, true)
			}
		})
	}
}

func TestAnOperatorTrustsOnlyWhatTheTableDoesNotRefuse(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"JSON.SET": "", " ft.search": "", "CLUSTER|NEWER": "", "NEW|SUB": "", "GET": "", "CLIENT|ID": "",
		"LOCK":     "",
		"FLUSHALL": "remove the marks", "client|kill": "end other sessions", "DEBUG": "stop the server",
		"CLIENT": "say which subcommand", "ACL|LOG": "not with RESET", "CONFIG|SET": "lose the marks",
		"": "not the name", "A B": "not the name", "JSON.*": "not the name", "A|B|C": "not the name",
		"|X": "not the name", "X|": "not the name", "X\x00": "not the name",
	} {
		_, err := parseTrusted([]string{name})
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
		s := Settings{TrustedCommands: []string{name}}
		s.IdleTimeout = 1
		if problems := fmt.Sprint(s.Check("GUARD_REDIS_")); want != "" &&
			!strings.Contains(problems, "GUARD_REDIS_TRUSTED_COMMANDS: ") {
			t.Errorf("%q: %s", name, problems)
		}
	}
}

// Redis has no such commands, so its error shows that they have passed.
func TestATrustedCommandPassesWithAToken(t *testing.T) {
	t.Parallel()
	s := Settings{TrustedCommands: []string{"json.set", "CLUSTER|NEWER", "X.Y|ONE"}}
	g := before(t, serverstest.SharedRedis(t), setup{Options: Options{trusted: s.trusted()}})
	r := g.raw()
	r.says("JSON.SET a $ 1\r\n", "-NOTOKEN JSON.SET")
	r.says("FENCE orders 5\r\nJSON.SET a $ 1\r\nJson.Set\r\nCLUSTER newer\r\nX.Y one 2\r\n",
		"+OK", "-ERR unknown command", "-ERR unknown command", "-ERR", "-ERR unknown command")
	r.says("JSON.SET ringfence:orders $ 1\r\nJSON.GET a\r\nX.Y\r\nX.Y two\r\nX.Y|ONE\r\nCLUSTER "+
		"NEWEST\r\n",
		"-NOTALLOWED JSON.SET", "-NOTALLOWED JSON.GET", "-NOTALLOWED X.Y", "-NOTALLOWED X.Y",
		"-NOTALLOWED", "-NOTALLOWED CLUSTER")
}
