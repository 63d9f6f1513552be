package redisguard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// header returns a command up to the header of its last argument, which has this size.
func header(size int, words ...string) string {
	_, rest, _ := strings.Cut(array(words...), "\r\n")
	return fmt.Sprintf("*%d\r\n%s$%d\r\n", len(words)+1, rest, size)
}

// A client that sends such a header sends nothing more and waits for the answer.
func TestRedisItselfRejectsAnArgumentThatIsTooLarge(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.SharedRedis(t), setup{})
	for _, size := range []int{512<<20 + 1, 2_000_000_000, 1 << 40} {
		for _, words := range [][]string{
			nil, {"GET"}, {"SET", "a"}, {"SET", strings.Repeat("k", 5000)},
			{"MSET", "a", strings.Repeat("v", 3*relay.BufferSize), "b"}, {"NOSUCH", "a", "b"},
			{"CLIENT"}, {"CLIENT", "SETNAME"}, {"CLIENT", "SETNAME", "a"}, {"CLIENT", "TRACKING"},
			{"HELLO"}, {"HELLO", "3", "AUTH", "default"}, {"HELLO", "3", "SETNAME"},
			{"EVAL"}, {"QUIT"}, {"MULTI"}, {"CONFIG", "GET"}, {"ACL", "LOG"}, {"SUBSCRIBE"},
		} {
			direct, through, early := dialRaw(t, g.server.Addr()), g.fenced(5), g.raw()
			var got [3]string
			for i, r := range []*raw{direct, through, early} {
				r.send("PING\r\n" + header(size, words...))
				got[i] = r.until("(never)")
				_ = r.conn.Close()
			}
			if !strings.Contains(got[0], "invalid bulk length\r\n(end)") || got[1] != got[0] {
				t.Errorf("%.80q %d: %q, direct %q", words, size, got[1], got[0])
			}
			if len(words) < 3 && got[2] != got[0] {
				t.Errorf("%.80q %d before the token: %q, direct %q", words, size, got[2], got[0])
			}
		}
	}
}

// The login timeout is much longer than this test may run, so the guard must not wait for it.
func TestBeforeTheTokenATooLongCommandIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.SharedRedis(t), setup{Options: Options{LoginTimeout: time.Hour}})
	for _, text := range []string{header(maxCommand, "GET"), header(512<<20, "SET", "a"),
		header(maxCommand, "FENCE", "orders")} {
		r := g.raw()
		r.send("PING\r\n" + text)
		r.expect("+PONG", "-ERR Protocol error: a command before the token is longer than 64 KiB")
		r.ended()
	}
}

// The refusal comes as soon as the deciding words have come, and the rest of the command is
// dropped.
func TestALargeCommandIsRefusedForItsFirstWords(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	size := 2 * relay.BufferSize
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"FLUSHALL"}, "-NOTALLOWED FLUSHALL is"},
		{[]string{"CONFIG"}, `-NOTALLOWED CONFIG (too long) is`},
		{[]string{"CONFIG", "SET", "a"}, "-NOTALLOWED CONFIG SET is"},
		{[]string{"ACL"}, "-NOTALLOWED ACL (too long) is"},
		{[]string{"CLIENT", "KILL", "ID"}, "-NOTALLOWED CLIENT KILL is"},
		{[]string{"SET", "ringfence:orders"}, "-NOTALLOWED SET is"},
		{[]string{"FENCE"}, "-BADTOKEN FENCE takes pairs"},
		{[]string{"FENCE", "orders"}, "-BADTOKEN the claim is malformed"},
		{[]string{"FENCE", "orders", "5"}, "-BADTOKEN FENCE takes pairs"},
		{[]string{"FENCE", "orders", "5", "stock"}, "-BADTOKEN the claim is malformed"},
		{[]string{"HELLO", "3", "SETNAME", "fence.orders=6", "AUTH", "default"},
			"-BADTOKEN a session keeps its token"},
	} {
		r := g.fenced(5)
		r.send(header(size, c.words...))
		r.expect(c.want)
		r.send(strings.Repeat("x", size))
		r.send("\r\nSET a 1\r\n")
		r.expect("+OK")
	}
}

// When the guard reads the deciding words, it has already forwarded the beginning of the command,
// so it ends the session.
func TestALargeCommandCannotClaimOrNameAKeyOfRingfence(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	big := strings.Repeat("x", relay.BufferSize)
	many := strings.Fields(strings.Repeat("a b ", relay.BufferSize/8))
	for _, c := range []struct {
		command, want string
	}{
		{array("CLIENT", "SETNAME", "fence.orders=6"+big), "-BADTOKEN"},
		{array("client", "setname", "fence."+big), "-BADTOKEN"},
		{array("HELLO", "3", "AUTH", "default", big, "SETNAME", "fence.orders=6"), "-BADTOKEN"},
		{array("HELLO", "3", "SETNAME", big, "SETNAME", "fence.orders.6"), "-BADTOKEN"},
		{array("SET", "ringfence:"+big, "1"), "-NOTALLOWED"},
		{array("MSET", "a", big, "ringfence", "1"), "-NOTALLOWED"},
		{array(append([]string{"DEL", big}, append(many, "ringfence:orders")...)...),
			"-NOTALLOWED"},
	} {
		for cut := range 12 { // the part that decides may come in pieces
			r := g.fenced(5)
			at := len(c.command) - len("ringfence:orders\r\n") - cut
			if i := strings.Index(c.command, big); i >= 0 {
				at = min(at, max(strings.LastIndex(c.command, "fence")-cut, 0))
			}
			r.send(c.command[:at])
			_, _ = r.conn.Write([]byte(c.command[at:]))
			r.expect(c.want)
			r.ended()
		}
	}
	for _, c := range []string{
		array("CLIENT", "SETNAME", big), array("HELLO", "3", "SETNAME", big),
		array("SET", big, "fence.orders=6"), array("CLIENT", "NO-EVICT", "fence."+big),
		array("HELLO", "2", "SETNAME", "fence.orders=5", "AUTH", "default", big),
		array("SET", "ringfencer"+big, "1"),
	} {
		r := g.fenced(5)
		r.send(c + array("ECHO", "the end"))
		if got := r.until("the end\r\n"); strings.HasSuffix(got, "(end)") ||
			strings.Contains(got, "-BADTOKEN") || strings.Contains(got, "-NOTALLOWED") {
			t.Errorf("%.60q was answered with %.200q", c, got)
		}
	}
	marks, err := g.store.Marks(t.Context())
	if err != nil || len(marks) != 1 || marks[0].Token != 5 {
		t.Errorf("marks %+v, %v", marks, err)
	}
}
