package redis

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// rule is what the guard does with a command by its name. A command without a rule passes in the
// relay. Before admission the guard treats it as a write.
type rule struct {
	read        bool   // it cannot write, so it may run before admission
	never       string // why it is always refused; empty if it is not
	allow       words  // the only subcommands that pass; nil for all
	deny        words  // subcommands that are refused; nil for none
	reason      string // why subcommands are refused
	beforeToken words  // the only subcommands that pass before admission; nil for all
	effect      effect // what the relay must know about it
}

type words map[string]bool

func list(s string) words {
	w := make(words)
	for _, word := range strings.Fields(s) {
		w[word] = true
	}
	return w
}

// effect is what a command that passes does to a transaction or to the session.
type effect int

const (
	noEffect          effect = iota
	opensTransaction         // MULTI
	closesTransaction        // EXEC, DISCARD, RESET
	endsSession              // QUIT
)

const (
	removesMarks = "it would remove the marks"
	endsService  = "it would end the server's service, or make it follow another"
	notASession  = "it would turn the connection into something that is no session"
	tampers      = "it could change marks, end sessions, or lift a revocation"
	takesLong    = "it can keep Redis busy for long, and no leader is admitted meanwhile"
	namesKey     = "it names a key in which the guard keeps marks and sessions"
)

// rules are looked up for every command, so commands that always pass have none.
var rules = func() map[string]*rule {
	r := map[string]*rule{
		"FLUSHALL": {never: removesMarks}, "FLUSHDB": {never: removesMarks},
		"SWAPDB":   {never: removesMarks},
		"SHUTDOWN": {never: endsService}, "FAILOVER": {never: endsService},
		"REPLICAOF": {never: endsService}, "SLAVEOF": {never: endsService},
		"SYNC": {never: notASession}, "PSYNC": {never: notASession},
		"REPLCONF": {never: notASession}, "MONITOR": {never: notASession},
		"DEBUG": {never: tampers},

		"MODULE": {reason: tampers, allow: list("LIST HELP")},
		"ACL": {
			reason: tampers,
			allow:  list("WHOAMI LIST USERS GETUSER CAT GENPASS DRYRUN LOG HELP"),
		},
		"CONFIG": {reason: tampers, allow: list("GET RESETSTAT HELP")},
		"CLUSTER": {
			reason: tampers,
			allow: list(`INFO NODES SLOTS SHARDS MYID MYSHARDID KEYSLOT COUNTKEYSINSLOT
				GETKEYSINSLOT LINKS REPLICAS SLAVES HELP`),
		},
		"CLIENT": {
			read:   true,
			reason: "it would end or hold up sessions, or lead this one round the guard",
			deny:   list("KILL PAUSE UNPAUSE MAINT_NOTIFICATIONS"),
			beforeToken: list(`ID INFO GETNAME SETNAME SETINFO LIST NO-EVICT NO-TOUCH GETREDIR
				TRACKINGINFO HELP`),
		},
		// While a script makes Redis BUSY nobody can be admitted. These commands end a script that
		// has written nothing.
		"SCRIPT": {read: true, beforeToken: list("KILL")},
		"FUNCTION": {
			read: true, beforeToken: list("KILL STATS"),
			reason: "it could replace or remove the functions of ringfence", deny: list("FLUSH RESTORE"),
		},

		"MULTI":   {effect: opensTransaction},
		"EXEC":    {effect: closesTransaction},
		"DISCARD": {effect: closesTransaction},
		"RESET":   {effect: closesTransaction},
		"QUIT":    {read: true, effect: endsSession},
	}
	for name := range list(reads) {
		r[name] = &rule{read: true}
	}
	return r
}()

// reads are the commands that cannot write and do not wait, as Redis flags them, and that end by
// themselves: the data and the length of a command limit how long they take. So there are no
// scripts here, not even read-only ones, because a script can run for ever; nor PFCOUNT, which may
// replicate. endsByItself checks two special cases: XREAD with BLOCK, and random elements without
// end. growsFaster finds those that can take much longer than one look at the data.
const reads = `HELLO AUTH PING SELECT COMMAND ECHO TIME INFO ROLE DBSIZE LASTSAVE LOLWUT
	GET MGET STRLEN GETRANGE SUBSTR LCS EXISTS TTL PTTL EXPIRETIME PEXPIRETIME
	TYPE DUMP KEYS SCAN RANDOMKEY OBJECT TOUCH
	HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSTRLEN HSCAN HRANDFIELD
	HTTL HPTTL HEXPIRETIME HPEXPIRETIME
	LRANGE LLEN LINDEX LPOS
	SMEMBERS SISMEMBER SMISMEMBER SCARD SRANDMEMBER SSCAN SUNION SINTER SDIFF SINTERCARD
	ZRANGE ZRANGEBYSCORE ZRANGEBYLEX ZREVRANGE ZREVRANGEBYSCORE ZREVRANGEBYLEX
	ZCARD ZSCORE ZMSCORE ZRANK ZREVRANK ZCOUNT ZLEXCOUNT ZSCAN ZRANDMEMBER
	ZUNION ZINTER ZDIFF ZINTERCARD
	XRANGE XREVRANGE XLEN XINFO XPENDING XREAD
	BITCOUNT BITPOS GETBIT BITFIELD_RO
	GEOPOS GEODIST GEOHASH GEOSEARCH GEORADIUS_RO GEORADIUSBYMEMBER_RO
	SORT_RO`

// initials has, for each length of a name, a bit for each letter that begins a command that the
// relay must look at: one that claims, or that has a rule beyond what may run before admission. All
// others pass there without a look at the rules.
var initials = func() (all [24]uint32) {
	watch := func(name string) { all[len(name)] |= 1 << (name[0] - 'A') }
	watch("FENCE")
	watch("HELLO")
	for name, r := range rules {
		if r.never != "" || r.allow != nil || r.deny != nil || r.effect != noEffect {
			watch(name)
		}
	}
	return all
}()

// passesUnseen reports whether a command has nothing that the relay must look at, judging by the
// length and the first letter of its name.
func passesUnseen(name []byte) bool {
	name = word(name)
	if len(name) == 0 || len(name) >= len(initials) {
		return true
	}
	letter := name[0]&^0x20 - 'A'
	return letter >= 26 || initials[len(name)]&(1<<letter) == 0
}

// ruleOf returns the rule for a command. Most commands have none.
func ruleOf(name []byte) *rule {
	var buf [24]byte
	if name = word(name); len(name) > len(buf) {
		return nil
	}
	return rules[string(upper(buf[:0], name))]
}

// forbidden refuses a command that may never pass, with or without a token. It returns nil for all
// others.
func forbidden(r *rule, args [][]byte) *fence.Refusal {
	if namesGuardKey(args) {
		return refusal.NotAllowed(commandName(args), namesKey)
	}
	switch {
	case r == nil:
		return nil
	case r.never != "":
		return refusal.NotAllowed(commandName(args), r.never)
	case len(args) < 2:
		return nil
	}
	sub := string(upper(nil, args[1]))
	resetsLog := len(args) > 2 && equalFold(args[0], "ACL") && sub == "LOG" && equalFold(args[2], "RESET")
	loads := equalFold(args[0], "FUNCTION") && sub == "LOAD" && mayBeOurs(args[len(args)-1])
	if r.deny[sub] || r.allow != nil && !r.allow[sub] || resetsLog || loads {
		return refusal.NotAllowed(commandName(args), r.reason)
	}
	return nil
}

// mayBeOurs reports whether a text for FUNCTION LOAD may be the library of ringfence by its first line, in which
// Redis reads words as a shell does.
func mayBeOurs(text []byte) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	isName := func(word []byte) bool { return bytes.EqualFold(word, []byte("name="+keyPrefix)) }
	return bytes.Equal(text, tooLongArgument) || bytes.ContainsAny(first, "\"'\\") || slices.ContainsFunc(bytes.Fields(first), isName)
}

// namesGuardKey reports whether an argument is the name of one of our keys.
func namesGuardKey(args [][]byte) bool { return slices.ContainsFunc(args[1:], isGuardKey) }

// keyPrefix begins the names of our keys.
const keyPrefix = "ringfence"

// isGuardKey reports whether an argument is the name of one of our keys.
func isGuardKey(arg []byte) bool {
	return len(arg) >= len(keyPrefix) && arg[0] == 'r' && bytes.HasPrefix(arg, []byte(keyPrefix)) &&
		(len(arg) == len(keyPrefix) || arg[len(keyPrefix)] == ':')
}

// needsToken refuses a command that needs a token. It returns nil for the others.
func needsToken(r *rule, args [][]byte) *fence.Refusal {
	switch {
	case r == nil, !r.read, !endsByItself(args),
		r.beforeToken != nil && (len(args) < 2 || !r.beforeToken[string(upper(nil, args[1]))]):
		return refusal.NeedsToken(commandName(args))
	case growsFaster(args):
		return refusal.LongWithoutToken(commandName(args), takesLong)
	}
	return nil
}

// endsByItself reports whether a read ends once it has looked at the data: it does not wait for
// more, and does not produce elements up to a number that the client names. With a negative count,
// Redis returns that many random elements, even from a set that has only one.
func endsByItself(args [][]byte) bool {
	switch string(upper(nil, args[0])) {
	case "XREAD":
		return !slices.ContainsFunc(args, func(arg []byte) bool { return equalFold(arg, "BLOCK") })
	case "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER":
		return len(args) < 3 || !bytes.HasPrefix(args[2], []byte("-"))
	}
	return true
}
