package redisguard

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/relay"
)

func TestALoginOfTheCertificatesUserPasses(t *testing.T) {
	t.Parallel()
	for user, all := range map[string][]string{
		"alice": {
			"AUTH alice secret", "auth alice AUTH", "HELLO", "HELLO 3", "HELLO 3 AUTH alice secret",
			"hello 2 setname AUTH auth alice bob", "HELLO 3 AUTH alice AUTH SETNAME AUTH",
			"HELLO 3 AUTH alice a AUTH alice b", "GET AUTH", "SET AUTH bob", "ECHO RESET",
			"PUBLISH AUTH bob",
		},
		"default": {"AUTH secret", "AUTH default secret", "RESET", "HELLO 2 AUTH default secret"},
		"AUTH":    {"AUTH AUTH secret", "HELLO 2 AUTH AUTH AUTH SETNAME AUTH"},
	} {
		for _, c := range all {
			u := &up{admitted: admittedUnder5, injected: newInjectedReplies(), only: guard.Only(user)}
			command := []byte(array(strings.Fields(c)...))
			if got := pumped(t, u, command, rand.New(rand.NewPCG(1, 2))); !bytes.Equal(got, command) {
				t.Errorf("%s as %s became %q", c, user, got)
			}
		}
	}
}

// Whatever the client sends: Redis would log in nobody but alice in what the guard passes on.
func FuzzLogin(f *testing.F) {
	for i, c := range otherUsers()[:25] {
		f.Add([]byte("GET a\r\n"+c+"AUTH alice secret\r\n"+c), uint64(i))
	}
	f.Add([]byte(array("HELLO", "3", "SETNAME", "AUTH", "AUTH", "alice", "AUTH")+"\"AUTH\\x00\" bob "+
		"x\r\n"), uint64(1))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		u := &up{admitted: admittedUnder5, injected: newInjectedReplies(), only: guard.Only("alice")}
		rnd := rand.New(rand.NewPCG(seed, 0))
		var out bytes.Buffer
		for held := []byte(nil); len(stream) > 0; {
			n := min(len(stream), relay.BufferSize-len(held), 1+rnd.IntN(5000))
			if n == 0 {
				t.Fatal("a walker holds a full buffer")
			}
			held, stream = append(held, stream[:n]...), stream[n:]
			done, err := u.Walk(bytes.Clone(held), &out)
			if held = held[done:]; err != nil {
				break
			}
		}
		for rest := out.Bytes(); len(rest) > 0; {
			n, args, err := parseCommand(rest, math.MaxInt, nil)
			if n == 0 || err != nil {
				return // incomplete, so Redis does not run it
			}
			rest = rest[n:]
			for _, user := range redisLogsIn(args) {
				if user != "alice" {
					t.Fatalf("%.200q logs in %q", args, user)
				}
			}
		}
	})
}

// redisLogsIn returns whom Redis logs in, as its authCommand, helloCommand and resetCommand do.
// They compare with strcasecmp, and the table of commands may do that, too.
func redisLogsIn(args [][]byte) (users []string) {
	is := func(i int, word string) bool {
		text, _, _ := strings.Cut(string(args[i]), "\x00")
		return len(text) == len(word) && strings.EqualFold(text, word)
	}
	switch {
	case len(args) == 0:
	case is(0, "AUTH") && len(args) == 2, is(0, "RESET") && len(args) == 1:
		return []string{"default"}
	case is(0, "AUTH") && len(args) == 3:
		return []string{string(args[1])}
	case is(0, "HELLO"):
		for i := 2; i < len(args); i++ {
			switch more := len(args) - 1 - i; {
			case is(i, "AUTH") && more >= 2:
				users = append(users, string(args[i+1]))
				i += 2
			case is(i, "SETNAME") && more >= 1:
				i++
			default: // a syntax error, before which Redis 6 has logged them in
				return users
			}
		}
	}
	return users
}
