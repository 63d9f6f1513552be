package redisguard

import (
	"io"
	"strings"
	"testing"
)

// BenchmarkUp and BenchmarkDown measure what the guard adds to each command and reply, besides
// moving the bytes.
func BenchmarkUp(b *testing.B) {
	b.Run("SET", func(b *testing.B) { benchmarkUp(b, array("SET", "key:000000012345", "xxx")) })
	b.Run("GET", func(b *testing.B) { benchmarkUp(b, array("GET", "key:000000012345")) })
	b.Run("CLIENT", func(b *testing.B) { benchmarkUp(b, array("CLIENT", "GETNAME")) })
}

func benchmarkUp(b *testing.B, one string) {
	stream := []byte(strings.Repeat(one, 100))
	u := &up{admitted: admittedUnder5, injected: newInjectedReplies()}
	b.SetBytes(int64(len(one)))
	for i := 0; i < b.N; i += 100 {
		if n, err := u.Walk(stream, io.Discard); n != len(stream) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkDown(b *testing.B) {
	const one = "$3\r\nxxx\r\n"
	stream := []byte(strings.Repeat(one, 100))
	d := &down{injected: newInjectedReplies()}
	b.SetBytes(int64(len(one)))
	for i := 0; i < b.N; i += 100 {
		if n, err := d.Walk(stream, io.Discard); n != len(stream) || err != nil {
			b.Fatal(n, err)
		}
	}
}
