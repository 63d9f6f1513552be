package redisguard

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/guard/relay"
)

// parseCommand reads the first command of a stream that is all there.
func parseCommand(b []byte, most int, args [][]byte) (size int, _ [][]byte, err error) {
	return new(parser).next(b, most, args)
}

// ofWords is an array of n short words.
func ofWords(n int) []byte {
	return []byte(array(slices.Repeat([]string{"x"}, n)...))
}

// A command that arrives byte by byte is read once, in the handshake and in the relay: no step
// begins at an earlier byte than the one before it had reached.
func TestBytesAreReadOnce(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string][]byte{
		"array":  ofWords(9000),
		"inline": []byte(strings.Repeat("x ", maxInline/2-2) + "\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var p parser
			read := 0
			for n := range len(stream) {
				from := p.at
				if size, _, err := p.next(stream[:n], maxCommand, nil); size > 0 || err != nil {
					t.Fatal(n, size, err)
				}
				read += n - from
			}
			if most := 10 * len(stream); read > most { // the header of an argument is read again
				t.Errorf("%d bytes are read for %d", read, len(stream))
			}
			size, args, err := p.next(stream, maxCommand, nil)
			_, want, _ := parseCommand(stream, maxCommand, nil)
			if size != len(stream) || err != nil || len(args) != len(want) {
				t.Errorf("%d, %v: %d words, want %d", size, err, len(args), len(want))
			}
		})
	}
}

// However a stream is cut, the parser says the same as of the whole.
func TestPiecesMakeTheSameCommand(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 9))
	streams := [][]byte{
		ofWords(3), ofWords(700), []byte("GET a\r\n"), []byte("\r\n"), []byte("*0\r\n"),
		[]byte("*-1\r\n"),
		[]byte("*2\r\n$1\r\nx\r\n$20000\r\n"), []byte("*1\r\n$1\r\nxyz"), []byte("GET \"a\r\n"),
		[]byte("a\x00b\r\n"), []byte("*1\r\n:1\r\n"), bytes.Repeat([]byte("x"), maxInline+1),
		[]byte("*1\r\n$0\r\n\r\n"), []byte("*1x\r\n"),
	}
	for _, stream := range streams {
		size, args, err := parseCommand(stream, relay.BufferSize, nil)
		for range 20 {
			var p parser
			var got [][]byte
			var n int
			var failed error
			for end := 0; end < len(stream) && n == 0 && failed == nil; {
				end = min(len(stream), end+1+rnd.IntN(300))
				n, got, failed = p.next(bytes.Clone(stream[:end]), relay.BufferSize, nil) // moved each time
			}
			if n != size || failed != err || !slices.EqualFunc(got, args, bytes.Equal) {
				t.Fatalf("%.60q: %d, %v, %.60q; want %d, %v, %.60q", stream, n, failed, got, size, err, args)
			}
		}
	}
}

// BenchmarkDrip measures a client that sends one command byte by byte.
func BenchmarkDrip(b *testing.B) {
	b.Run("handshake", func(b *testing.B) {
		stream := ofWords(9000)
		b.SetBytes(int64(len(stream)))
		for b.Loop() {
			var p parser
			for n := range stream {
				if _, _, err := p.next(stream[:n], maxCommand, nil); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("relay", func(b *testing.B) {
		stream := ofWords(2000)
		b.SetBytes(int64(len(stream)))
		for b.Loop() {
			u := &up{admitted: admittedUnder5, injected: newInjectedReplies()}
			for n := range stream {
				if _, err := u.Walk(stream[:n], io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
