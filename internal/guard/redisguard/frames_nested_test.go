package redisguard

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// The scripts nest as deep as Lua's stack allows, which ends the deepest level with an error. They
// nest in ways that the guard stores differently: in the last element, in the first, in one of
// several, in maps and in sets.
var nested = []string{
	"local a={1};for i=1,200 do a={a} end;return a",
	"local a={1};a[1]=a;return a",
	"local a={1};for i=1,9000 do a={a,1} end;return a",
	"local a={1};for i=1,9000 do if i%2==0 then a={a,1} else a={a,1,2} end end;return a",
	"redis.setresp(3);local a={1};for i=1,9000 do a={map={k=a,l={1,2}}} end;return a",
	"redis.setresp(3);local a={1};for i=1,9000 do a={set={[a]=true,x=true}} end;return a",
}

func TestARefusedCommandBehindADeepReplyIsAnsweredInItsPlace(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		r := g.fenced(5)
		r.send(hello + "\r\n")
		r.reply()
		for _, script := range nested {
			eval := array("EVAL", script, "0")
			r.send(eval + "FLUSHALL\r\n")
			deep := r.reply()
			if n, ok := naive([]byte(deep), 0); n != len(deep) || !ok {
				t.Fatalf("%s: %q… is not one reply", script, deep[:100])
			}
			r.expect("-NOTALLOWED")
			r.send("MULTI\r\n" + eval + "EXEC\r\nFLUSHALL\r\nPING\r\n")
			r.expect("+OK", "+QUEUED", "*1", "-NOTALLOWED", "+PONG")
		}
	}
}

func TestAClientIsToldThatItsSessionHasEndedAfterADeepReply(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for i, script := range nested {
		old := g.fenced(2*i + 1)
		old.send("HELLO 3\r\n" + array("EVAL", script, "0"))
		old.reply()
		old.reply()
		g.fenced(2*i + 2)
		old.expect("-STALETOKEN stale token: ")
		old.ended()
	}
}

// naive finds the end of the reply that begins at from, or of a part of one. It works by recursion
// on a complete stream. ok is false when the reply does not end.
func naive(b []byte, from int) (end int, ok bool) {
	if from >= len(b) {
		return 0, false
	}
	i := bytes.Index(b[from:], []byte("\r\n"))
	if i < 1 {
		return 0, false
	}
	kind, size, at := b[from], string(b[from+1:from+i]), from+i+2
	count, err := strconv.Atoi(size)
	switch {
	case strings.IndexByte("+-:,(#_", kind) >= 0, err == nil && count < 0:
		return at, true
	case size == "?":
		for at < len(b) && b[at] != '.' {
			if bytes.HasPrefix(b[at:], []byte(";0\r\n")) {
				return at + 4, kind == '$'
			}
			if at, ok = naive(b, at); !ok {
				return 0, false
			}
		}
		return at + 3, at+3 <= len(b)
	case err != nil || count > 1<<40:
		return 0, false
	case strings.IndexByte("$=!;", kind) >= 0:
		return at + count + 2, at+count+2 <= len(b)
	}
	elements := count
	switch kind {
	case '%':
		elements *= 2
	case '|':
		elements = 2*count + 1 // and the reply that it belongs to
	}
	for range elements {
		if at, ok = naive(b, at); !ok {
			return 0, false
		}
	}
	return at, true
}

// grown makes up a reply. One of its elements nests deeply, the others hardly at all.
func grown(rnd *rand.Rand, depth int) string {
	if depth <= 0 {
		return replies[rnd.IntN(8)]
	}
	n := 1 + rnd.IntN(4)
	elements := func(n int) string {
		var b strings.Builder
		deep := rnd.IntN(n)
		for i := range n {
			d := max(0, rnd.IntN(8)-6)
			if i == deep {
				d = depth - 1
			}
			b.WriteString(grown(rnd, min(d, depth-1)))
		}
		return b.String()
	}
	switch rnd.IntN(9) {
	case 0:
		return fmt.Sprintf("%%%d\r\n", n) + elements(2*n)
	case 1:
		return fmt.Sprintf("~%d\r\n", n) + elements(n)
	case 2:
		return fmt.Sprintf(">%d\r\n", n) + elements(n)
	case 3:
		return fmt.Sprintf("|%d\r\n", n) + elements(2*n+1)
	case 4:
		return "*?\r\n" + elements(n) + ".\r\n"
	case 5:
		return "%?\r\n" + elements(2*n) + ".\r\n"
	case 6:
		return "$?\r\n;4\r\na\r\n.\r\n;0\r\n"
	}
	return fmt.Sprintf("*%d\r\n", n) + elements(n)
}

// naive supports all kinds of replies and uses a stack, so it is the oracle.
func TestNestedRepliesEndWhereANaiveWalkerSays(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(12, 13))
	for range 3000 {
		stream := []byte(grown(rnd, rnd.IntN(60)) + grown(rnd, rnd.IntN(5)))
		endsAsNaively(t, stream, rnd)
	}
}

func endsAsNaively(t *testing.T, stream []byte, rnd *rand.Rand) {
	t.Helper()
	var f frames
	begun, at, shown := 0, 0, 0
	for shown < len(stream) {
		shown = min(len(stream), shown+1+rnd.IntN(20))
		for at < shown {
			n, ended, err := f.scan(stream[at:shown])
			if at += n; err != nil {
				t.Fatalf("%q: %v", stream, err)
			}
			if !ended {
				break
			}
			if end, ok := naive(stream, begun); !ok || end != at {
				t.Fatalf("%q: an end at %d, want %d, %v", stream, at, end, ok)
			}
			begun = at
		}
	}
	if begun != len(stream) || !f.betweenReplies() {
		t.Fatalf("%q: %d bytes belong to no reply", stream, len(stream)-begun)
	}
}

// Both find the same end of a reply, for any input.
func FuzzFrames(f *testing.F) {
	for _, r := range replies {
		f.Add([]byte(r + r))
	}
	rnd := rand.New(rand.NewPCG(14, 15))
	for range 50 {
		f.Add([]byte(grown(rnd, 12)))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		var f frames
		for at := 0; at < len(stream); {
			n, ended, err := f.scan(stream[at:])
			if err != nil {
				return // not RESP
			}
			end, ok := naive(stream, at)
			if bytes.ContainsAny(stream[at:at+n], "?.;") ||
				bytes.Contains(stream[at:at+n], []byte("-1\r\n")) {
				// chunks outside a string, and nulls of kinds without null: here the two may differ
				return
			}
			if ended != ok || ended && at+n != end {
				t.Fatalf("%q: %d %v, naively %d %v", stream[at:], at+n, ended, end, ok)
			}
			if !ended {
				return
			}
			at = end
		}
	})
}

// A level whose last element has begun needs no memory, and equal levels share one entry. The rest
// is bounded.
func TestAnyDepthTakesLittleMemory(t *testing.T) {
	t.Parallel()
	const little = 2
	for begin, most := range map[string]int{
		"*1\r\n":                   little,
		"*2\r\n:1\r\n":             little,
		"%1\r\n+a\r\n":             little,
		"|1\r\n+a\r\n":             little,
		"*2\r\n":                   little,
		"%1\r\n":                   little,
		"|1\r\n":                   little,
		"*?\r\n":                   little,
		"*2\r\n*3\r\n":             maxOpen,
		"*2\r\n*3\r\n%9\r\n>4\r\n": maxOpen,
	} {
		var f frames
		var err error
		for range 100_000 {
			if _, _, err = f.scan([]byte(begin)); err != nil {
				break
			}
		}
		if len(f.open) > most || (err == nil) != (most == little) {
			t.Errorf("%q: %d kept, %v", begin, len(f.open), err)
		}
	}
	if kept := unsafe.Sizeof(levels{}) * maxOpen; kept > 512<<10 {
		t.Errorf("the open levels of one reply may take %d bytes", kept)
	}
}
