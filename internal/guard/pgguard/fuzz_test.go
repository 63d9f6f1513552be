package pgguard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
)

func FuzzReadStartup(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add(startupOf(0, "user", "app", "options", "-c fence.orders=5"), uint8(1))
	f.Add(startupOf(9999, "user", "app", "_pq_.x", ""), uint8(7))
	f.Add(append(request(wire.SSLRequest), startupOf(2, "user", "app")...), uint8(8))
	f.Add(request(wire.CancelRequest, 0, 0, 0, 1, 0, 0, 0, 2), uint8(3))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint8(4))
	f.Fuzz(func(t *testing.T, sent []byte, chunk uint8) {
		var parts packets
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+int(chunk))
			parts = append(parts, rest[:n])
			rest = rest[n:]
		}
		var answers bytes.Buffer
		s, err := wire.NewGreeting(&parts, &answers).Read()
		if strings.Trim(answers.String(), "N") != "" || answers.Len() > 2 {
			t.Errorf("answered %q", answers.String())
		}
		if err != nil {
			return
		}
		if !bytes.Contains(sent, s.Packet) || len(s.Packet) > wire.MaxStartupPacket ||
			int(binary.BigEndian.Uint32(s.Packet)) != len(s.Packet) {
			t.Errorf("the packet is %q", s.Packet)
		}
		if s.Cancel {
			return
		}
		packet, unknown, capped := (&startup{s}).negotiated()
		if len(unknown) == 0 && !capped && !bytes.Equal(packet, s.Packet) {
			t.Error("a packet with nothing to negotiate was changed")
		}
		again, err := wire.ParseStartup(packet, binary.BigEndian.Uint32(packet[4:]))
		if err != nil || again.Minor > newestMinor ||
			len(again.Params)+len(unknown) != len(s.Params) {
			t.Errorf("the packet for the server differs from the client's: %+v, %v", again, err)
		}
		_, _ = (&startup{s}).claims("")
	})
}

func FuzzOptions(f *testing.F) {
	for _, options := range optionStrings {
		f.Add(options)
	}
	f.Fuzz(func(t *testing.T, options string) {
		claims, err := (&startup{&wire.Startup{Params: []wire.Param{{
			Name: "options", Value: options,
		}}}}).claims("")
		if err != nil {
			return
		}
		for i, c := range claims {
			if c.Token <= 0 || !strings.Contains(options, c.Token.String()) &&
				!strings.Contains(options, `\`) {
				t.Errorf("%q: token %s", options, c.Token)
			}
			if i > 0 && claims[i-1].Resource >= c.Resource {
				t.Errorf("%q: %v", options, claims)
			}
		}
	})
}

// walked feeds a stream to a walker as the relay does, in pieces of random size. It returns what
// the walker wrote and how many bytes it holds back.
func walked(w interface {
	Walk([]byte, io.Writer) (int, error)
}, stream []byte, r *rand.Rand) (out []byte, held int, err error) {
	var to bytes.Buffer
	buf := make([]byte, 0, 16<<10)
	for len(stream) > 0 {
		n := min(1+r.IntN(40), len(stream), cap(buf)-len(buf))
		if r.IntN(10) == 0 {
			n = min(len(stream), cap(buf)-len(buf))
		}
		buf = append(buf, stream[:n]...)
		stream = stream[n:]
		done, err := w.Walk(buf, &to)
		if err != nil {
			return to.Bytes(), len(buf), err
		}
		buf = buf[:copy(buf[:cap(buf)], buf[done:])]
		if len(buf) == cap(buf) {
			return to.Bytes(), len(buf), errors.New("the walker holds a full buffer and wants more")
		}
	}
	return to.Bytes(), len(buf), nil
}

func FuzzDown(f *testing.F) {
	killed := encode('E', "SFATAL\x00VFATAL\x00C57P01\x00Mterminating\x00\x00")
	f.Add(join(encode('Z', "I"), encode('D', strings.Repeat("x", 200)), encode('Z', "T")),
		uint64(1))
	f.Add(join(encode('C', "SELECT 1\x00"), encode('Z', "I"), killed), uint64(2))
	f.Add(join(killed, encode('Z', "I"), killed), uint64(3))
	f.Add(encode('E', "SERROR\x00VERROR\x00C57P01\x00Mfake\x00\x00"), uint64(4))
	f.Add([]byte{'E', 0, 0, 0, 0}, uint64(6))
	f.Add([]byte{'Z', 0, 0, 0, 4, 'Z', 0, 0, 0, 5, 'I'}, uint64(7))
	f.Add([]byte{'D', 255, 255, 255, 255, 0}, uint64(8))
	f.Fuzz(func(t *testing.T, stream []byte, n uint64) {
		d := &down{progress: &progress{}}
		out, held, err := walked(d, stream, rand.New(rand.NewPCG(n, 0)))
		if err == nil && d.shutdown == nil && len(out)+held != len(stream) {
			t.Errorf("of %d bytes %d were forwarded and %d are held", len(stream), len(out), held)
		}
		if d.shutdown == nil && !bytes.HasPrefix(stream, out) {
			t.Error("the forwarded bytes differ from the stream")
		}
		if _, left := messages(out); err == nil && d.Boundary() && len(left) > 0 && plain(stream) {
			t.Errorf("the walker reports a boundary after %d bytes of a message", len(left))
		}
		if d.shutdown != nil &&
			(len(d.shutdown) < 5 || !isShutdown(d.shutdown) || !bytes.Contains(stream, d.shutdown)) {
			t.Errorf("kept %q", d.shutdown)
		}
	})
}

// plain reports whether messages can split a stream: it cannot handle lengths below 4.
func plain(stream []byte) bool {
	_, left := messages(stream)
	return len(left) < 5 || binary.BigEndian.Uint32(left[1:]) >= 4
}

func FuzzUp(f *testing.F) {
	f.Add(join(encode('Q', "select 1\x00"), encode('X')), uint64(1))
	f.Add(join(encode('P', "\x00select 1\x00\x00\x00"), encode('B', strings.Repeat("x", 200)),
		encode('E'), encode('S')), uint64(2))
	f.Add([]byte{'d', 255, 255, 255, 255}, uint64(3))
	f.Add([]byte{'Q', 0, 0, 0, 3}, uint64(4))
	f.Fuzz(func(t *testing.T, stream []byte, n uint64) {
		s := &progress{}
		out, held, err := walked(&up{progress: s}, stream, rand.New(rand.NewPCG(n, 0)))
		if err == nil && (!bytes.Equal(out, stream) || held != 0) {
			t.Errorf("of %d bytes %d were forwarded", len(stream), len(out))
		}
		if !bytes.HasPrefix(stream, out) {
			t.Error("the forwarded bytes differ from the stream")
		}
		if all, left := messages(stream); err == nil && plain(stream) && s.midMessage != (len(left) > 0) {
			t.Errorf("after %d messages and %d bytes mid is %v", len(all), len(left), s.midMessage)
		}
	})
}
