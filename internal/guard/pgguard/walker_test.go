package pgguard

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/guard/relay"
)

// killed is the last error of a backend that was terminated.
var killed = encode('E',
	"SFATAL\x00VFATAL\x00C57P01\x00Mterminating connection due to administrator command\x00\x00")

func TestOnlyTheLastErrorOfAnEndedBackendIsKept(t *testing.T) {
	t.Parallel()
	long := encode('E', "SFATAL\x00VFATAL\x00C57P01\x00M"+strings.Repeat("x", maxError)+"\x00\x00")
	for name, test := range map[string]struct {
		stream []byte
		kept   bool
	}{
		"alone":       {killed, true},
		"behind rows": {join(encode('D', "x"), killed), true},
		"in another language": {encode('E',
			"SFATALE\x00VFATAL\x00C57P01\x00Mx\x00\x00"), true},
		"of an old server": {encode('E', "SFATAL\x00C57P01\x00Mx\x00\x00"), true},
		"an error that is not fatal": {encode('E',
			"SERROR\x00VERROR\x00C57P01\x00Mx\x00\x00"), false},
		"a crash of the server": {encode('E',
			"SFATAL\x00VFATAL\x00C57P02\x00Mx\x00\x00"), false},
		"a notice": {encode('N',
			"SFATAL\x00VFATAL\x00C57P01\x00Mx\x00\x00"), false},
		"inside a row":                     {encode('D', string(killed)), false},
		"without a code":                   {encode('E', "SFATAL\x00\x00"), false},
		"without fields":                   {encode('E', "\x00"), false},
		"empty":                            {encode('E'), false},
		"broken":                           {encode('E', "SFATAL"), false},
		"too long to be inspected":         {long, false},
		"too long, before another message": {join(long, encode('Z', "I")), false},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range uint64(20) {
				d := &down{progress: &progress{}}
				out, held, err := walked(d, test.stream, rand.New(rand.NewPCG(n, 1)))
				if err != nil || held != 0 || !d.Boundary() {
					t.Fatalf("%v, %d held, boundary %v", err, held, d.Boundary())
				}
				if (d.shutdown != nil) != test.kept ||
					!bytes.Equal(append(out, d.shutdown...), test.stream) {
					t.Fatalf("kept %q, forwarded %q", d.shutdown, out)
				}
			}
		})
	}
}

func TestAMessageOfAnySizePassesTheWalkersUnchanged(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for size := relay.BufferSize - 12; size <= relay.BufferSize+12; size++ {
		stream := join(encode('D', strings.Repeat("x", size)),
			encode('C', "SELECT 1\x00"), encode('Z', "I"))
		d := &down{progress: &progress{pending: 1}}
		if out, held, err := walked(d, stream, r); err != nil || held != 0 ||
			!bytes.Equal(out, stream) || d.progress.pending != 0 {
			t.Fatalf("%d bytes down: %v, %d held, %d forwarded, %d pending",
				size, err, held, len(out), d.progress.pending)
		}
		u := &up{progress: &progress{}}
		if out, held, err := walked(u, stream, r); err != nil || held != 0 ||
			!bytes.Equal(out, stream) || u.progress.midMessage {
			t.Fatalf("%d bytes up: %v, %d held, %d forwarded", size, err, held, len(out))
		}
	}
}

// broken accepts some bytes and then fails, like a connection that has passed its deadline.
type broken struct{ takes int }

func (b *broken) Write(p []byte) (int, error) {
	if n := b.takes; n < len(p) {
		b.takes = 0
		return n, errors.New("deadline")
	}
	b.takes -= len(p)
	return len(p), nil
}

func TestAfterAFailedWriteNoErrorMayBeAppended(t *testing.T) {
	t.Parallel()
	stream := join(encode('D', "xxxx"), encode('Z', "I"))
	for takes := range len(stream) {
		told := false
		d := &down{progress: &progress{pending: 1, draining: true, finish: func() { told = true }}}
		if _, err := d.Walk(stream, &broken{takes}); err == nil || d.mayAppend() || told {
			t.Errorf("after %d of %d bytes: %v, may end %v, reported idle %v",
				takes, len(stream), err, d.mayAppend(), told)
		}
	}
	d := &down{progress: &progress{pending: 1, draining: true, finish: func() {}}}
	if _, err := d.Walk(stream, io.Discard); err != nil || !d.mayAppend() || d.progress.closed == nil {
		t.Errorf("%v, may end %v, drained %v", err, d.mayAppend(), d.progress.closed != nil)
	}
}

// A shutdown may treat the session as idle only when the client has its answer.
func TestASessionIsIdleOnlyWhenTheClientHasTheAnswer(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	stream := join(encode('C', "COMMIT\x00"), encode('Z', "I"))
	d := &down{}
	d.progress = &progress{pending: 1, draining: true, finish: func() {
		if out.Len() != len(stream) {
			t.Errorf("reported idle when the client had %d of %d bytes", out.Len(), len(stream))
		}
	}}
	if _, err := d.Walk(stream, &out); err != nil || d.progress.closed == nil {
		t.Errorf("%v, drained %v", err, d.progress.closed != nil)
	}
}

func TestADrainWaitsForOpenWorkAndForNothingElse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		up, down []byte
		idle     bool
	}{
		"nothing":                  {nil, nil, true},
		"a query":                  {encode('Q', "select 1\x00"), nil, false},
		"a query that is answered": {encode('Q', "select 1\x00"), encode('Z', "I"), true},
		"an open transaction":      {encode('Q', "begin\x00"), encode('Z', "T"), false},
		"a failed transaction":     {encode('Q', "begin\x00"), encode('Z', "E"), false},
		"two queries, one answered": {join(encode('Q', "x"), encode('Q', "x")),
			encode('Z', "I"), false},
		"half a query":         {encode('Q', "select 1\x00")[:9], nil, false},
		"part of a header":     {[]byte{'Q', 0}, nil, false},
		"a parse without sync": {encode('P', "x"), nil, false},
		"a parse, then sync":   {join(encode('P', "x"), encode('S')), nil, false},
		"a parse, then sync, answered": {join(encode('P', "x"), encode('S')),
			encode('Z', "I"), true},
		"copy data of a running query": {join(encode('Q', "x"), encode('d', "x")),
			encode('G', "x"), false},
		"a function call that is answered": {encode('F', "x"),
			join(encode('V', "x"), encode('Z', "I")), true},
	} {
		idle := false
		s := &progress{status: 'I', finish: func() { idle = true }}
		if _, err := (&up{progress: s}).Walk(test.up, io.Discard); err != nil {
			t.Fatal(err)
		}
		if _, err := (&down{progress: s}).Walk(test.down, io.Discard); err != nil {
			t.Fatal(err)
		}
		s.drain()
		if idle != test.idle {
			t.Errorf("%s: idle is %v", name, idle)
		}
		var out bytes.Buffer
		if _, err := (&up{progress: s}).Walk(encode('Q', "x"), &out); err != nil ||
			(out.Len() == 0) != test.idle {
			t.Errorf("%s: %d bytes of a query passed after the drain, %v", name, out.Len(), err)
		}
	}
}
