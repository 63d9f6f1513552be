package redis

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// rule is what the guard does with a command by its name. A command without a rule passes in the relay, and is taken
// for a write before the token.
type rule struct {
	read  bool     // cannot write: may be run before the token
	never string   // refused always, because of this
	only  words    // of a container's subcommands these alone are let through; nil for all
	not   words    // these are refused; nil for none
	early words    // before the token these alone; nil for all that pass
	why   string   // why subcommands are refused
	moves movement // what it does to a transaction
}

type words map[string]bool

func list(s string) words {
	w := make(words)
	for _, word := range strings.Fields(s) {
		w[word] = true
	}
	return w
}

// movement is what the relay has to know of a command that passes.
type movement int

const (
	stays  movement = iota
	opens           // MULTI
	closes          // EXEC, DISCARD, RESET
	leaves          // QUIT
)

const (
	flushes = "it would remove the marks"
	demotes = "it would end the server's service, or make it follow another"
	copies  = "it would turn the connection into something that is no session"
	meddles = "it could change marks, end sessions, or lift a revocation"
)

// rules are looked up for every command, so a command that always passes has none.
var rules = func() map[string]*rule {
	r := map[string]*rule{
		"FLUSHALL": {never: flushes}, "FLUSHDB": {never: flushes}, "SWAPDB": {never: flushes},
		"SHUTDOWN": {never: demotes}, "REPLICAOF": {never: demotes}, "SLAVEOF": {never: demotes}, "FAILOVER": {never: demotes},
		"SYNC": {never: copies}, "PSYNC": {never: copies}, "REPLCONF": {never: copies}, "MONITOR": {never: copies},
		"DEBUG": {never: meddles},

		"MODULE":  {only: list("LIST HELP"), why: meddles},
		"ACL":     {only: list("WHOAMI LIST USERS GETUSER CAT GENPASS DRYRUN LOG HELP"), why: meddles},
		"CONFIG":  {only: list("GET RESETSTAT HELP"), why: meddles},
		"CLUSTER": {only: list("INFO NODES SLOTS SHARDS MYID MYSHARDID KEYSLOT COUNTKEYSINSLOT GETKEYSINSLOT LINKS REPLICAS SLAVES HELP"), why: meddles},
		"CLIENT": {
			read: true, not: list("KILL PAUSE UNPAUSE MAINT_NOTIFICATIONS"), why: "it would end or hold up sessions, or lead this one round the guard",
			early: list("ID INFO GETNAME SETNAME SETINFO LIST NO-EVICT NO-TOUCH GETREDIR TRACKINGINFO HELP"),
		},
		// While a script makes Redis BUSY nobody can be admitted. These end one that has written nothing.
		"SCRIPT":   {read: true, early: list("KILL")},
		"FUNCTION": {read: true, early: list("KILL STATS")},

		"MULTI": {moves: opens}, "EXEC": {moves: closes}, "DISCARD": {moves: closes}, "RESET": {moves: closes},
		"QUIT": {read: true, moves: leaves},
	}
	for name := range list(reads) {
		r[name] = &rule{read: true}
	}
	return r
}()

// reads are the commands that cannot write and do not wait, as Redis flags them, and that end by themselves: what they
// take is bounded by the data and by the length of a command. So no script is among them, read-only or not, for it can
// run for ever; nor PFCOUNT, which may replicate. XREAD with BLOCK and random elements without end (endsByItself) are
// looked at apart.
const reads = `HELLO AUTH PING SELECT COMMAND ECHO TIME INFO ROLE DBSIZE LASTSAVE LOLWUT
	GET MGET STRLEN GETRANGE SUBSTR LCS EXISTS TTL PTTL EXPIRETIME PEXPIRETIME TYPE DUMP KEYS SCAN RANDOMKEY OBJECT TOUCH
	HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSTRLEN HSCAN HRANDFIELD HTTL HPTTL HEXPIRETIME HPEXPIRETIME
	LRANGE LLEN LINDEX LPOS SMEMBERS SISMEMBER SMISMEMBER SCARD SRANDMEMBER SSCAN SUNION SINTER SDIFF SINTERCARD
	ZRANGE ZRANGEBYSCORE ZRANGEBYLEX ZREVRANGE ZREVRANGEBYSCORE ZREVRANGEBYLEX ZCARD ZSCORE ZMSCORE ZRANK ZREVRANK
	ZCOUNT ZLEXCOUNT ZSCAN ZRANDMEMBER ZUNION ZINTER ZDIFF ZINTERCARD XRANGE XREVRANGE XLEN XINFO XPENDING XREAD
	BITCOUNT BITPOS GETBIT BITFIELD_RO GEOPOS GEODIST GEOHASH GEOSEARCH GEORADIUS_RO GEORADIUSBYMEMBER_RO
	SORT_RO`

// ruleOf finds the rule of a command. Most have none.
func ruleOf(name []byte) *rule {
	var buf [24]byte
	if len(name) > len(buf) {
		return nil
	}
	return rules[string(upper(buf[:0], name))]
}

// forbidden is the refusal of a command that may never pass, token or not; nil for all others.
func forbidden(r *rule, args [][]byte) *fence.Refusal {
	for _, arg := range args[1:] {
		if ours(arg) {
			return refusal.NotAllowed(called(args), "it names a key in which the guard keeps marks and sessions")
		}
	}
	switch {
	case r == nil:
		return nil
	case r.never != "":
		return refusal.NotAllowed(called(args), r.never)
	case len(args) < 2:
		return nil
	}
	if sub := upper(nil, args[1]); r.not[string(sub)] || r.only != nil && !r.only[string(sub)] {
		return refusal.NotAllowed(called(args), r.why)
	}
	if len(args) > 2 && equalFold(args[0], "ACL") && equalFold(args[1], "LOG") && equalFold(args[2], "RESET") {
		return refusal.NotAllowed(called(args), r.why)
	}
	return nil
}

// keyPrefix begins the names of our keys.
const keyPrefix = "ringfence"

// ours says that an argument is the name of one of our keys.
func ours(arg []byte) bool {
	return len(arg) >= len(keyPrefix) && arg[0] == 'r' && bytes.HasPrefix(arg, []byte(keyPrefix)) &&
		(len(arg) == len(keyPrefix) || arg[len(keyPrefix)] == ':')
}

// tooEarly is the refusal of a command that needs a token; nil for those that do not.
func tooEarly(r *rule, args [][]byte) *fence.Refusal {
	if r == nil || !r.read {
		return refusal.NeedsToken(called(args))
	}
	if r.early != nil && (len(args) < 2 || !r.early[string(upper(nil, args[1]))]) {
		return refusal.NeedsToken(called(args))
	}
	if !endsByItself(args) {
		return refusal.NeedsToken(called(args))
	}
	return nil
}

// endsByItself says that a read is over when it has looked at the data: it does not wait for more, and does not go on
// for a number that it names. A negative count asks for that many random elements, even of a set that has only one.
func endsByItself(args [][]byte) bool {
	switch string(upper(nil, args[0])) {
	case "XREAD":
		return !slices.ContainsFunc(args, func(arg []byte) bool { return equalFold(arg, "BLOCK") })
	case "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER":
		return len(args) < 3 || !bytes.HasPrefix(args[2], []byte("-"))
	}
	return true
}
