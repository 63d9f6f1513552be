package redisguard

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// replies has every kind of reply. Each entry is one reply; an attribute belongs to the reply after
// it.
var replies = []string{
	"+OK\r\n", "-ERR no\r\n", ":-12\r\n", "$5\r\nhello\r\n", "$0\r\n\r\n", "$-1\r\n",
	"*-1\r\n", "*0\r\n",
	"*2\r\n$1\r\na\r\n*3\r\n:1\r\n+x\r\n$-1\r\n", "$4\r\n\r\n\r\n\r\n", "*1\r\n*1\r\n*1\r\n*0\r\n",
	"_\r\n", "#t\r\n", ",1.5\r\n", ",inf\r\n", "(3492890328409238509324850943850943825024385\r\n",
	"!21\r\nSYNTAX invalid syntax\r\n", "=15\r\ntxt:Some string\r\n",
	"%2\r\n+a\r\n:1\r\n+b\r\n*0\r\n", "%0\r\n", "~2\r\n:1\r\n:2\r\n",
	">3\r\n+message\r\n+ch\r\n+x\r\n",
	"|1\r\n+key-popularity\r\n%1\r\n$1\r\na\r\n,0.1923\r\n*2\r\n:1\r\n:2\r\n", "|0\r\n+OK\r\n",
	"*3\r\n:1\r\n|1\r\n+ttl\r\n:3600\r\n:2\r\n:3\r\n", "$?\r\n;4\r\nHell\r\n;5\r\no wor\r\n;0\r\n",
	"*?\r\n:1\r\n*?\r\n.\r\n$1\r\nx\r\n.\r\n",
	"%?\r\n+a\r\n:1\r\n.\r\n", "+line\nfeed\r\n", "+carriage\rreturn\r\n",
	"*2\r\n>1\r\n:1\r\n+odd\r\n",
}

func TestTheEndOfEveryReplyIsFound(t *testing.T) {
	t.Parallel()
	for _, r := range replies {
		var f frames
		n, ended, err := f.scan([]byte(r + "+next\r\n"))
		if n != len(r) || !ended || err != nil || !f.betweenReplies() {
			t.Errorf("%q: n %d of %d, ended %v, %v", r, n, len(r), ended, err)
		}
	}
}

// The ends are the same however a stream is cut into pieces.
func TestRepliesMayComeInAnyPieces(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var stream []byte
		var ends []int
		for range 5 {
			stream = append(stream, replies[rnd.IntN(len(replies))]...)
			ends = append(ends, len(stream))
		}
		var f frames
		at, shown := 0, 0
		for at < len(stream) {
			shown = min(len(stream), max(shown, at)+1+rnd.IntN(9))
			n, ended, err := f.scan(stream[at:shown])
			if err != nil {
				t.Fatalf("%q: %v", stream, err)
			}
			at += n
			if ended {
				if at != ends[0] {
					t.Fatalf("%q: an end at %d, want %d", stream, at, ends[0])
				}
				ends = ends[1:]
			}
		}
		if len(ends) > 0 {
			t.Fatalf("%q: %d ends were missed", stream, len(ends))
		}
	}
}

func TestMalformedRepliesAreRejected(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"hello\r\n", "$x\r\n", "$-2\r\n", "*1x\r\n", "$5\n", ".\r\n", ";0\r\n", "*\r\n",
		"$99999999999999999999\r\n", "*" + strings.Repeat("0", 40), "\r\n",
		strings.Repeat("*3\r\n*2\r\n", maxOpen),
	} {
		var f frames
		if _, _, err := f.scan([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// The server's errors for replaced commands are replaced by the guard's refusals.
func TestRefusalsAreInsertedHoweverTheStreamIsCut(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		s := newInjectedReplies()
		d := &down{injected: s}
		var stream, want []byte
		for range 8 {
			if rnd.IntN(3) > 0 {
				r := replies[rnd.IntN(len(replies))]
				stream, want = append(stream, r...), append(want, r...)
				continue
			}
			_, _ = s.add([]byte("-NOTALLOWED this\r\n"))
			stream = append(stream, "-ERR unknown command '"+string(s.prefix)+
				string(rune('0'+s.sent))+"', with args beginning with: \r\n"...)
			want = append(want, "-NOTALLOWED this\r\n"...)
		}
		if got := walk(t, d, stream, rnd); !bytes.Equal(got, want) {
			t.Fatalf("%q became %q, want %q", stream, got, want)
		}
		if !d.atBoundary() {
			t.Fatalf("%q is reported to end within a reply", stream)
		}
	}
}

// walker is relay.Walker.
type walker interface {
	Walk(b []byte, w io.Writer) (int, error)
}

// walk feeds a stream to a walker in random pieces, as the relay does, and returns what it wrote.
func walk(t testing.TB, w walker, stream []byte, rnd *rand.Rand) []byte {
	t.Helper()
	var out bytes.Buffer
	at, shown := 0, 0
	for shown < len(stream) {
		shown = min(len(stream), shown+1+rnd.IntN(40))
		n, err := w.Walk(bytes.Clone(stream[at:shown]), &out)
		if err != nil {
			t.Fatalf("%q: %v", stream, err)
		}
		at += n
	}
	if at != len(stream) {
		t.Fatalf("%q: %d bytes are held", stream, len(stream)-at)
	}
	return out.Bytes()
}

func TestTheStreamIsForwardedUnchangedFromAMalformedReplyOn(t *testing.T) {
	t.Parallel()
	s := newInjectedReplies()
	_, _ = s.add([]byte("-NOTALLOWED\r\n"))
	d := &down{injected: s}
	stream := []byte("+OK\r\n?what is this\r\n-ERR unknown command '" + string(s.prefix) + "1'\r\n")
	got := walk(t, d, stream, rand.New(rand.NewPCG(5, 6)))
	if !bytes.Equal(got, stream) || d.atBoundary() {
		t.Errorf("%q became %q", stream, got)
	}
}

// No byte is lost or added on the way to the client, for any input.
func FuzzDown(f *testing.F) {
	for _, r := range replies {
		f.Add([]byte(r+"+OK\r\n"), uint64(1))
	}
	f.Add([]byte("-ERR unknown command 'RINGFENCE-"), uint64(2))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		d := &down{injected: newInjectedReplies()}
		var out bytes.Buffer
		rnd := rand.New(rand.NewPCG(seed, 0))
		at, shown := 0, 0
		for shown < len(stream) {
			shown = min(len(stream), shown+1+rnd.IntN(40))
			n, err := d.Walk(bytes.Clone(stream[at:shown]), &out)
			if err != nil || n < 0 || at+n > shown {
				t.Fatalf("n %d, %v", n, err)
			}
			at += n
			if shown-at >= maxError {
				t.Fatalf("%d bytes are held", shown-at)
			}
		}
		if !bytes.Equal(out.Bytes(), stream[:at]) {
			t.Fatalf("%q became %q", stream[:at], out.Bytes())
		}
	})
}
