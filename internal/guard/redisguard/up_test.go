package redisguard

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/marks/redismarks"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks"
)

var admittedUnder5 = []marks.Presented{{Resource: "orders", Token: 5}}

// The server gets the client's bytes unchanged, except that each refused command is replaced as a
// whole and empty commands are dropped, however the stream is cut.
func TestTheServerGetsTheClientsBytesExceptForRefusedCommands(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(8, 9))
	for range 200 {
		s := newInjectedReplies()
		u := &up{admitted: admittedUnder5, injected: s}
		var stream, want []byte
		swaps := 0
		for range 12 {
			if rnd.IntN(4) > 0 {
				c := workload(rnd)
				stream, want = append(stream, c...), append(want, saying([]byte(c))...)
				continue
			}
			swaps++
			c := refusedAlways[rnd.IntN(3)]
			if rnd.IntN(2) == 0 {
				c = strings.TrimSuffix(array(strings.Fields(c)...), "\r\n")
			}
			if rnd.IntN(5) == 0 {
				c = strings.TrimSuffix(array("flushall", strings.Repeat("y", 3*relay.BufferSize)),
					"\r\n")
			}
			stream = append(stream, c+"\r\n"...)
			want = append(want, redismarks.Command(fmt.Sprint(string(s.prefix), swaps))...)
		}
		if got := pumped(t, u, stream, rnd); !bytes.Equal(got, want) {
			t.Fatalf("%.300q… became %.300q…", stream, got)
		}
		if len(s.waiting) != swaps {
			t.Fatalf("%d answers wait, want %d", len(s.waiting), swaps)
		}
	}
}

// pumped feeds a stream to a walker as the relay does, in random pieces that fit into the buffer.
// It returns what the walker wrote.
func pumped(t testing.TB, w walker, stream []byte, rnd *rand.Rand) []byte {
	t.Helper()
	var out bytes.Buffer
	var held []byte
	for len(stream) > 0 {
		room := relay.BufferSize - len(held)
		if room == 0 {
			t.Fatal("a walker holds a full buffer")
		}
		n := min(len(stream), room, 1+rnd.IntN(3000))
		held = append(held, stream[:n]...)
		stream = stream[n:]
		done, err := w.Walk(bytes.Clone(held), &out)
		if err != nil {
			t.Fatal(err)
		}
		held = held[done:]
	}
	if len(held) > 0 {
		t.Fatalf("%d bytes are held: %.80q", len(held), held)
	}
	return out.Bytes()
}

// Nothing is added or reordered on the way to the server, and a malformed command is not forwarded,
// for any input.
func FuzzUp(f *testing.F) {
	for i, c := range refusedAlways {
		f.Add([]byte("GET a\r\n"+c+"\r\n"+array("GET", "a")), uint64(i))
	}
	f.Add([]byte("*2\r\n$4\r\nMGET\r\n$20000\r\n"+strings.Repeat("x", 20000)+"\r\n"), uint64(1))
	f.Add([]byte("*-1\r\n*0\r\n\r\nSET a \"b\\x00\"\r\n"), uint64(2))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		s := newInjectedReplies()
		u := &up{admitted: admittedUnder5, injected: s}
		rnd := rand.New(rand.NewPCG(seed, 0))
		var out bytes.Buffer
		var held []byte
		seen := 0
		for rest := stream; len(rest) > 0; {
			room := relay.BufferSize - len(held)
			if room == 0 {
				t.Fatal("a walker holds a full buffer")
			}
			n := min(len(rest), room, 1+rnd.IntN(500))
			held, rest = append(held, rest[:n]...), rest[n:]
			done, err := u.Walk(bytes.Clone(held), &out)
			if done < 0 || done > len(held) {
				t.Fatalf("done %d of %d", done, len(held))
			}
			seen += done
			held = held[done:]
			if err != nil {
				break
			}
		}
		// Without the inserted commands, the output is a subsequence of the input.
		got := out.Bytes()
		for n := range s.sent {
			got = bytes.Replace(got, redismarks.Command(fmt.Sprint(string(s.prefix), n+1)), nil, 1)
		}
		if s.sent == 0 && !bytes.Equal(got, saying(stream[:seen])) {
			t.Fatalf("%q became %q", stream[:seen], got)
		}
		if !isSubsequence(got, stream[:seen]) {
			t.Fatalf("%q became %q", stream[:seen], got)
		}
	})
}

// saying returns a stream without the commands that have no words.
func saying(stream []byte) (said []byte) {
	for len(stream) > 0 {
		n, args, err := parseCommand(stream, math.MaxInt, nil)
		if n == 0 || err != nil {
			return append(said, stream...) // an incomplete command
		}
		if len(args) > 0 {
			said = append(said, stream[:n]...)
		}
		stream = stream[n:]
	}
	return said
}

func isSubsequence(part, whole []byte) bool {
	for _, c := range part {
		i := bytes.IndexByte(whole, c)
		if i < 0 {
			return false
		}
		whole = whole[i+1:]
	}
	return true
}

// The size of a parsed command must be exact: no shorter prefix is a command.
func FuzzCommand(f *testing.F) {
	for _, c := range refusedAlways {
		f.Add([]byte(c + "\r\n"))
	}
	f.Add([]byte(array("FENCE", "orders", "5")))
	f.Add([]byte("*1\r\n$4\r\nPI"))
	f.Fuzz(func(t *testing.T, b []byte) {
		size, args, err := parseCommand(b, relay.BufferSize, nil)
		_, long := err.(tooLong)
		switch {
		case size < 0 || size > len(b):
			t.Fatalf("%d of %d bytes", size, len(b))
		case err != nil && !long && !errors.Is(err, errProtocol):
			t.Fatal(err)
		case err != nil && size > 0:
			t.Fatal("malformed, and a command")
		case size > 0 && len(args) > 0:
			again, _, err := parseCommand(b[:size], relay.BufferSize, nil) // the command alone
			if again != size || err != nil {
				t.Fatalf("%q: %d, then %d", b, size, again)
			}
			if _, _, err := parseClaims(args); err != nil &&
				!errors.Is(err, fence.ErrMalformed) && !isRefusal(err) {
				t.Fatal(err)
			}
			if _, r := trusted(nil).judge(args, true); r != nil &&
				bytes.Count(line(r), []byte("\n")) != 1 {
				t.Fatalf("%q", line(r))
			}
		}
	})
}

func isRefusal(err error) bool {
	var r *fence.Refusal
	return errors.As(err, &r)
}
