package redisguard

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// until reads up to and including a text, or to the end of the stream.
func (r *raw) until(text string) string {
	r.t.Helper()
	var b strings.Builder
	for !strings.HasSuffix(b.String(), text) {
		c, err := r.r.ReadByte()
		if err != nil && disconnected(err) {
			return b.String() + "(end)"
		}
		if err != nil {
			r.t.Fatalf("after %q: %v", b.String(), err)
		}
		b.WriteByte(c)
	}
	return b.String()
}

// unknown matches what Redis says of a command that it does not know, and what the guard says.
var unknown = regexp.MustCompile(
	`(?m)^(-ERR unknown (?:sub)?command|-NOTALLOWED .* — the guard does not know) .*$`,
)

// bothAnswer sends the same bytes to the server and through the guard, and compares all answers.
func (g *guarded) bothAnswer(through *raw, text string) {
	g.t.Helper()
	direct := dialRaw(g.t, g.server.Addr())
	defer direct.conn.Close()
	defer through.conn.Close()
	var got [2]string
	for i, r := range []*raw{direct, through} {
		r.send(text + "PING the-end\r\n")
		got[i] = unknown.ReplaceAllString(r.until("$7\r\nthe-end\r\n"), "-unknown")
	}
	if got[0] != got[1] {
		g.t.Fatalf("%.200q:\ndirectly          %q\nthrough the guard %q", text, got[0], got[1])
	}
}

func TestInlineCommandsMeanTheSameAsToRedis(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.SharedRedis(t), setup{})
	for _, line := range []string{
		"", "\r", "\r\r", " ", "\v", "\f\r", "\v\fECHO x\v", "ECHO a\vb", "ECHO a\fb", "\vECHO\va",
		"ECHO\fa", "ECHO a\rb", "ECHO\ra", "ECHO\ta",
		`ECHO "a"` + "\v", `ECHO "a"` + "\f\v\r", `ECHO 'a'` + "\v", `ECHO "a"b`, `ECHO "a""b"`,
		`ECHO 'a''b'`, `ECHO a"b"`, `ECHO a'b'`, `ECHO a"b" c`,
		`ECHO "a` + "\vb\"", `ECHO '`, `ECHO "`, `ECHO "\x41\x4g\n\r\t\b\a\q\\\""`,
		`ECHO '\x41\n\''`, `ECHO "\x4"`, `ECHO "\`, `ECHO 'a\`, `ECHO ""`, `""`, `'' x`,
		`"ECHO" x`, `EC"HO" x`, "\x80\xff", "ECHO \x85", "ECHO \xa0a", "ECHO a\xc2\xa0b",
		`ECHO "a"` + "\xa0", "*", " *1", "$3",
		"FLUSHALL\vx", "FLUSHALL\f", "DEL ringfence\v", "DEL\vringfence", "CONFIG\fSET a b",
		"CLIENT KILL\v 1",
	} {
		g.bothAnswer(g.fenced(5), line+"\r\n")
		g.bothAnswer(g.fenced(5), line+"\n")
	}
}

// After a blank line, Valkey 8.1 reads the next command as an inline command, whatever it begins
// with. A value for the guard would then be a command for the server.
func TestACommandCannotHideBehindABlankLine(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for _, blank := range []string{" ", "\t\r", "\v", "", "\r", "*0", "*-1"} {
		r := g.fenced(5)
		r.send(blank + "\r\n" + array("SET", "a", "\r\nFLUSHALL\r\n") + "GET a\r\n")
		r.expect("+OK", "$12\r\n\r\nFLUSHALL\r\n")
	}
	var out strings.Builder
	u := &up{admitted: admittedUnder5, injected: newInjectedReplies()}
	if n, err := u.Walk([]byte(" \r\n*0\r\n*-1\r\n\n\r\n"), &out); n != 15 ||
		err != nil || out.Len() > 0 {
		t.Errorf("%d, %v, %q is forwarded", n, err, out.String())
	}
}

// Guard and server must split the stream alike, in whatever order the forms of commands come.
func TestTheServerRunsTheCommandsThatTheGuardParses(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	admin := g.direct()
	forms := []string{
		array("INCR", "n"), "INCR n\r\n", "'INCR' \"n\"\n", "\tincr\vn\tn\r\n",
		array("SET", "x", "\r\nINCR n\r\n"), array("ECHO", "INCR n\r\n"),
		"ECHO \"\\r\\nINCR n\"\r\n",
		" \r\n", "\n", "\r\n", "\f\n", "*0\r\n", "*-5\r\n", array(""), array("", "\r\nINCR n\r\n"),
		"'' INCR n\r\n", array("NOSUCH", "\nINCR n\n"), "NOSUCH *2\r\n", " *3\r\n", "\v$4\n",
		array("FLUSHALL", "\r\nINCR n\r\n"), "FLUSHALL\r\n",
		array("SET", "x", strings.Repeat("\r\nINCR n", relay.BufferSize/4)),
	}
	rnd := rand.New(rand.NewPCG(16, 17))
	for range 200 {
		var stream string
		for range 1 + rnd.IntN(8) {
			stream += forms[rnd.IntN(len(forms))]
		}
		stream += "ECHO the-end\r\n"
		answers, runs := 0, 0
		for rest := []byte(stream); len(rest) > 0; {
			n, args, err := parseCommand(rest, math.MaxInt, nil)
			if n == 0 || err != nil {
				t.Fatalf("%.300q: %d, %v", rest, n, err)
			}
			if rest = rest[n:]; len(args) > 0 {
				answers++
			}
			if len(args) == 2 && equalFold(args[0], "INCR") {
				runs++
			}
		}
		r := g.fenced(5)
		r.send(stream)
		for range answers - 1 {
			r.reply()
		}
		r.expect("$7\r\nthe-end")
		if got := admin.GetDel(t.Context(), "n").Val(); got != fmt.Sprint(runs) &&
			(got != "" || runs > 0) {
			t.Fatalf("%.300q: run %s times, want %d", stream, got, runs)
		}
		_ = r.conn.Close()
	}
}

// The oracle is a real server.
func TestInlineWordsAreSplitAsRedisSplitsThem(t *testing.T) {
	t.Parallel()
	server := serverstest.SharedRedis(t)
	rnd := rand.New(rand.NewPCG(10, 11))
	const letters = "ab \"'\\x0f1nrt\t\v\f\r\x80"
	r := dialRaw(t, server.Addr())
	for range 5000 {
		var b strings.Builder
		for range 1 + rnd.IntN(14) {
			b.WriteByte(letters[rnd.IntN(len(letters))])
		}
		text := `EVAL "return ARGV" 0 ` + b.String() + "\r\n"
		r.send(text)
		reply, want := r.reply(), "*0\r\n"
		size, args, err := parseCommand([]byte(text), relay.BufferSize, nil)
		if err != nil {
			want = "-ERR " + err.Error() + "\r\n"
			_ = r.conn.Close()
			r = dialRaw(t, server.Addr())
		} else if len(args) > 3 {
			want = array(asStrings(args[3:])...)
		}
		if reply != want || err == nil && size != len(text) {
			t.Fatalf("%q: %q, Redis answers %q", text, args, reply)
		}
	}
}

func asStrings(args [][]byte) []string {
	var s []string
	for _, a := range args {
		s = append(s, string(a))
	}
	return s
}

// Guard and server give the same errors, before the token and after it.
func TestProtocolErrorsAreThoseOfRedis(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.SharedRedis(t), setup{})
	malformed := []string{
		"*x\r\n", "*3000000000\r\n", "*99999999999999999999999\r\n", "*-9223372036854775808\r\n",
		"*-9223372036854775809\r\n", "*-x\r\n", "*--1\r\n", "*-0\r\n", "*-\r\n",
		"*01\r\n$4\r\nPING\r\n", "*\r\n", "*+1\r\n$4\r\nPING\r\n", "* 1\r\n", "*1 \r\n",
		"*-1\r\n", "*0\r\n",
		"*1\r\n$-1\r\n", "*1\r\n$x\r\n", "*1\r\n$\r\n", "*1\r\n$99999999999999999999\r\nx",
		"*1\r\n$999999999999\r\nx", "*1\r\n$4294967296\r\n",
		"*2\r\n$4\r\nPING\r\nfoo\r\n", "SET a \"unbalanced\r\n", "SET a 'b'c\r\n",
	}
	for c := 1; c < 256; c++ {
		if c != '$' {
			malformed = append(malformed, "*1\r\n"+string([]byte{byte(c)})+"1\r\n")
		}
	}
	for _, text := range malformed {
		g.bothAnswer(g.raw(), "PING\r\n"+text)
		g.bothAnswer(g.fenced(5), "PING\r\n"+text)
	}
}

// Where Redis searches on for the end of a line, or ignores a wrong byte, the guard is strict.
func TestWhereRedisIsLaxTheGuardRefuses(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.SharedRedis(t), setup{})
	for text, want := range map[string]string{
		"*1\r\r$4\r\nPING\r\n":                "invalid multibulk length",
		"*1\n$4\nPING\n":                      "invalid multibulk length",
		"*1\r\n$4\rxPING\r\n":                 "invalid bulk length",
		"*1\r\n$4\r\nPINGxy":                  "an argument is longer than it says",
		"*1\r\n\x00":                          "expected '$', got '\x00'",
		"SET a \x00b\r\n":                     "a zero byte in an inline request",
		strings.Repeat("x", maxInline+1):      "too big inline request",
		"*" + strings.Repeat("1", 21):         "invalid multibulk length",
		"*1\r\n$" + strings.Repeat("1", 21):   "invalid bulk length",
		fmt.Sprintf("*1\r\n$%d\r\n", 1<<40+1): "invalid bulk length",
	} {
		for _, r := range []*raw{g.raw(), g.fenced(5)} {
			r.send(text)
			if got, err := io.ReadAll(r.r); string(got) != "-ERR Protocol error: "+want+"\r\n" {
				t.Errorf("%.80q: %q, %v", text, got, err)
			}
		}
	}
}
