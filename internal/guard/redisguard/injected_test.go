package redisguard

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

// refused returns a command whose refusal has the maximum length and differs from all others.
func refused(i int) string {
	return fmt.Sprintf("CONFIG \"%06d%s\"\r\n", i, strings.Repeat(`\xff`, 40))
}

// A client that has turned its replies off cannot fill the guard's memory with refusals that the
// server never answers: not with many equal ones, nor with many different ones, nor with ones that
// have been answered.
func TestUnansweredRefusalsTakeBoundedMemory(t *testing.T) {
	const sessions, most = 4, 600 << 10
	for name, next := range map[string]func(i int) string{
		"equal":              func(int) string { return "FLUSHALL\r\n" },
		"different":          refused,
		"different at first": func(i int) string { return refused(min(i, 300)) },
	} {
		var all []*up
		before := heap()
		for range sessions {
			u := &up{admitted: admittedUnder5, injected: newInjectedReplies()}
			all = append(all, u)
			for i := range 1200 { // these are answered
				if _, err := u.Walk([]byte(refused(i)), io.Discard); err != nil {
					t.Fatal(err)
				}
				if i%400 == 399 {
					u.injected.take(i + 1)
				}
			}
			var err error
			for i := 0; err == nil; i++ {
				if i > maxWaiting {
					t.Fatalf("%s: refusals are not bounded", name)
				}
				_, err = u.Walk([]byte(next(i)), io.Discard)
			}
			if !errors.Is(err, fence.ErrNotAllowed) {
				t.Fatal(err)
			}
		}
		each := (heap() - before) / sessions
		t.Logf("%s: %d bytes each", name, each)
		if each > most {
			t.Errorf("%s: %d bytes each, want at most %d", name, each, most)
		}
		runtime.KeepAlive(all)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // to free what the first one only finalized
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An answered refusal is not kept, and the count of bytes includes only what is kept.
func TestRefusalsAreForgottenOnceTheyAreAnswered(t *testing.T) {
	t.Parallel()
	s := newInjectedReplies()
	for i := range 1000 {
		if _, err := s.add(fmt.Appendf(nil, "-NOTALLOWED %d\r\n", i%7)); err != nil {
			t.Fatal(err)
		}
	}
	all := s.waiting
	for _, number := range []int{1, 2, 500, 501, 999, 1000} {
		if text, _ := s.take(number); text != fmt.Sprintf("-NOTALLOWED %d\r\n", (number-1)%7) {
			t.Errorf("%d is answered with %q", number, text)
		}
	}
	if slices.ContainsFunc(all, func(a *injectedReply) bool { return a != nil }) {
		t.Error("answers that were taken are kept")
	}
	if text, _ := s.take(700); text != "" || len(s.waiting) > 0 || len(s.distinct) > 0 ||
		s.bytes != 0 {
		t.Errorf("%q, %d wait, %d kept, %d bytes", text, len(s.waiting), len(s.distinct), s.bytes)
	}
}

func TestASessionWithTooManyUnansweredRefusalsIsEndedAndToldWhy(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	r := g.fenced(5)
	r.send("CLIENT REPLY OFF\r\n" + strings.Repeat("FLUSHALL\r\n", maxWaiting-1) +
		"CLIENT REPLY ON\r\nFLUSHALL\r\nRPUSH written before\r\n")
	// replies were off, so only the last refusal is sent
	r.expect("+OK", "-NOTALLOWED FLUSHALL", ":1")
	_, _ = r.conn.Write([]byte("CLIENT REPLY OFF\r\n" +
		strings.Repeat("FLUSHALL\r\n", maxWaiting+1) + "RPUSH written after\r\n"))
	r.expect("-NOTALLOWED this session has too many refused commands")
	r.ended()
	if got := g.written(); len(got) != 1 {
		t.Errorf("written: %v", got)
	}
}

// A driver writes a whole pipeline before it reads the first answer.
func TestALongPipelineOfRefusedCommandsIsAnsweredInOrder(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	r := g.fenced(5)
	const n = 5000
	var pipeline strings.Builder
	for i := range n {
		fmt.Fprintf(&pipeline, "FLUSHALL\r\nECHO %d\r\nCONFIG SET a %d\r\nDEL ringfence\r\n", i, i)
	}
	r.send(pipeline.String())
	for i := range n {
		r.expect("-NOTALLOWED FLUSHALL is", fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(i)), i),
			"-NOTALLOWED CONFIG SET is", "-NOTALLOWED DEL is")
	}
}
