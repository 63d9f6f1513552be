package pgguard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestTheFirstPacketIsReadAsPostgresReadsIt(t *testing.T) {
	t.Parallel()
	good := startupOf(0, "user", "app", "database", "shop")
	for _, test := range []struct {
		name    string
		sent    packets
		answers string // to requests for encryption
		err     string // empty: a session or a cancel request
	}{
		{"a session", packets{good}, "", ""},
		{"SSL, then a session", packets{request(wire.SSLRequest), good}, "N", ""},
		{"GSS, then a session", packets{request(wire.GSSEncRequest), good}, "N", ""},
		{"SSL, GSS, then a session", packets{request(wire.SSLRequest), request(wire.GSSEncRequest), good},
			"NN", ""},
		{"GSS, SSL, then a session", packets{request(wire.GSSEncRequest), request(wire.SSLRequest), good},
			"NN", ""},
		{"SSL twice", packets{request(wire.SSLRequest), request(wire.SSLRequest), good}, "N", "repeated"},
		{"GSS twice", packets{request(wire.GSSEncRequest), request(wire.GSSEncRequest), good}, "N",
			"repeated"},
		{"SSL with bytes behind it", packets{join(request(wire.SSLRequest), good)}, "",
			"unencrypted data"},
		{"SSL with a body", packets{request(wire.SSLRequest, 0), good}, "", "body"},
		{"a cancel request", packets{request(wire.CancelRequest, 0, 0, 0, 1, 0, 0, 0, 2)}, "", ""},
		{"a cancel request of protocol 3.2", packets{request(wire.CancelRequest,
			append([]byte{0, 0, 0, 1}, make([]byte, 256)...)...)}, "", ""},
		{"a cancel request without a key", packets{request(wire.CancelRequest, 0, 0, 0, 1)},
			"", "without a key"},
		{"nothing", nil, "", "EOF"},
		{"half a length", packets{good[:2]}, "", "unexpected EOF"},
		{"half a packet", packets{good[:len(good)-1]}, "", "unexpected EOF"},
		{"direct TLS", packets{[]byte{tlsconfig.Handshake, 3, 1, 2, 0, 1}}, "", "starts with TLS"},
		{"SSL, then TLS despite the answer",
			packets{request(wire.SSLRequest), []byte{tlsconfig.Handshake, 3, 1, 2, 0}}, "N", "starts with " +
				"TLS"},
		{"a length of 7", packets{[]byte{0, 0, 0, 7, 0, 3, 0}}, "", "invalid length"},
		{"a length of 0", packets{[]byte{0, 0, 0, 0, 0, 3, 0, 0}}, "", "invalid length"},
		{"a length of 2^32-1", packets{[]byte{255, 255, 255, 255, 0, 3, 0, 0}}, "",
			"invalid length"},
		{"the longest",
			packets{startupOf(0, "user", "app", "options", strings.Repeat("x",
				wire.MaxStartupPacket-len(startupOf(0, "user", "app", "options", ""))))}, "", ""},
		{"one byte more",
			packets{startupOf(0, "user", "app", "options", strings.Repeat("x", wire.MaxStartupPacket+
				1-len(startupOf(0, "user", "app", "options", ""))))}, "", "invalid length"},
		{"HTTP", packets{[]byte("GET / HTTP/1.1\r\n\r\n")}, "", "invalid length"},
		{"protocol 2.0", packets{request(2 << 16)}, "", "unsupported frontend protocol 2.0"},
		{"protocol 4.0", packets{request(4 << 16)}, "", "unsupported frontend protocol 4.0"},
		{"an unknown request", packets{request(80877105)}, "", "unsupported frontend protocol"},
		{"protocol 3.2", packets{startupOf(2, "user", "app")}, "", ""},
		{"protocol 3.9999", packets{startupOf(9999, "user", "app")}, "", ""},
		{"no body", packets{request(3 << 16)}, "", "terminator"},
		{"no terminator", packets{request(3<<16, []byte("user\x00app\x00")...)}, "", "terminator"},
		{"a name without a value", packets{request(3<<16, []byte("user\x00")...)}, "",
			"without a value"},
		{"bytes behind the terminator", packets{request(3<<16,
			[]byte("user\x00app\x00\x00x\x00\x00")...)}, "", "behind the terminator"},
		{"a parameter twice", packets{startupOf(0, "user", "app", "user", "postgres")},
			"", "given twice"},
		{"options twice", packets{startupOf(0, "options", "-c fence.orders=5", "options",
			"-c fence.orders=6")}, "", "given twice"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var answers bytes.Buffer
			last := join(test.sent...)
			s, err := wire.NewGreeting(&test.sent, &answers).Read()
			if answers.String() != test.answers {
				t.Errorf("answered %q, want %q", answers.String(), test.answers)
			}
			switch {
			case test.err == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %v, want an error that contains %q", err, test.err)
			case err == nil && !bytes.HasSuffix(last, s.Packet):
				t.Errorf("the packet is %q", s.Packet)
			}
		})
	}
}

// packets are read one at a time, as from a client that waits for answers.
type packets [][]byte

func (p *packets) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	if (*p)[0] = (*p)[0][n:]; len((*p)[0]) == 0 {
		*p = (*p)[1:]
	}
	return n, nil
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// The oracle is a real server: guard and server must accept or refuse alike, and negotiate alike.
func TestAGuardNegotiatesAsTheServerDoes(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	to := []string{"user", "app", "database", g.database, "options", "-c fence.orders=5"}
	terminated := startupOf(0, to...)
	open := terminated[:len(terminated)-1]
	binary.BigEndian.PutUint32(open, uint32(len(open)))
	for _, test := range []struct {
		name string
		sent packets
	}{
		{"3.0", packets{startupOf(0, to...)}},
		{"3.0 with an unknown protocol option",
			packets{startupOf(0, append([]string{"_pq_.x", "1"}, to...)...)}},
		{"3.2", packets{startupOf(2, to...)}},
		{"3.9999", packets{startupOf(9999, to...)}},
		{"3.9999 with unknown protocol options", packets{startupOf(9999,
			append([]string{"_pq_.x", "1", "_pq_.test_protocol_negotiation", ""}, to...)...)}},
		{"2.0", packets{request(2 << 16)}},
		{"4.0", packets{startupWith(4<<16, to...)}},
		{"SSL, 3.0", packets{request(wire.SSLRequest), startupOf(0, to...)}},
		{"SSL with bytes behind it", packets{join(request(wire.SSLRequest), startupOf(0, to...))}},
		{"SSL twice", packets{request(wire.SSLRequest), request(wire.SSLRequest)}},
		{"10004 bytes", packets{sized(10004, to)}},
		{"10005 bytes", packets{sized(10005, to)}},
		{"no terminator", packets{open}},
	} {
		t.Run(test.name, func(t *testing.T) {
			direct, guarded := opening(t, g.pg.Addr(), test.sent), opening(t, g.Addr, test.sent)
			t.Logf("direct %s; through the guard %s", direct, guarded)
			if direct != guarded {
				t.Errorf("the server answers %s, the guard %s", direct, guarded)
			}
		})
	}
}

// A newer server may support what the relay does not, so the guard must not request it.
func TestTheGuardRequestsNothingThatTheRelayDoesNotSupport(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ sent, upstream []byte }{
		{startupOf(0, "user", "app"), startupOf(0, "user", "app")},
		{startupOf(2, "user", "app"), startupOf(2, "user", "app")},
		{startupOf(3, "user", "app"), startupOf(2, "user", "app")},
		{startupOf(9999, "user", "app", "_pq_.x", "1", "database", "shop"),
			startupOf(2, "user", "app", "database", "shop")},
		{startupOf(0, "_pq_.x", "1", "user", "app", "_pq_.", ""), startupOf(0, "user", "app")},
	} {
		s, err := wire.ParseStartup(test.sent, binary.BigEndian.Uint32(test.sent[4:]))
		must.Succeed(t, err)
		if packet, _, _ := (&startup{s}).negotiated(); !bytes.Equal(packet, test.upstream) {
			t.Errorf("%q becomes %q, want %q", test.sent, packet, test.upstream)
		}
	}
}

// startupWith returns a startup packet of any protocol version.
func startupWith(code uint32, pairs ...string) []byte {
	p := startupOf(0, pairs...)
	binary.BigEndian.PutUint32(p[4:], code)
	return p
}

// sized returns a startup packet of exactly n bytes.
func sized(n int, pairs []string) []byte {
	short := len(startupOf(0, append(slices.Clone(pairs), "application_name", "")...))
	return startupOf(0,
		append(slices.Clone(pairs), "application_name", strings.Repeat("x", n-short))...)
}

// opening sends packets and describes the answers until the login is done or refused: negotiations
// in full, of the rest only the outcome.
func opening(t *testing.T, addr string, sent packets) string {
	t.Helper()
	w := dialWire(t, addr)
	var answers strings.Builder
	for i, packet := range sent {
		w.send(packet)
		if i < len(sent)-1 {
			b, _ := w.r.ReadByte()
			answers.WriteByte(b)
		}
	}
	for {
		head, err := w.r.Peek(5)
		if err != nil || binary.BigEndian.Uint32(head[1:]) > wire.MaxMessage {
			return answers.String() + "closed" // silently, or with an error of protocol 2
		}
		switch m := w.next(); m.kind {
		case 'v':
			var v pgproto3.NegotiateProtocolVersion
			must.Succeed(t, v.Decode(m.body))
			fmt.Fprintf(&answers, "v(%d.%d %v) ", v.NewestMinorProtocol>>16,
				v.NewestMinorProtocol&0xffff, v.UnrecognizedOptions)
		case 'R':
			answers.WriteString("login ")
		case 'Z':
			return answers.String() + "ready"
		case 'E':
			_ = m.error(t)
			return answers.String() + "closed" // some servers close without an error
		}
	}
}

func TestWhatIsNoStartupPacketIsClosedSilently(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	for name, sent := range map[string][]byte{
		"TLS":              {tlsconfig.Handshake, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
		"a goodbye":        encode('X'), // of a client that has not logged in
		"too short":        {0, 0, 0, 7, 0, 3, 0, 0},
		"too long":         {0, 1, 0, 0, 0, 3, 0, 0},
		"another protocol": []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		for by, addr := range map[string]string{"the server": g.pg.Addr(), "the guard": g.Addr} {
			w := dialWire(t, addr)
			w.send(sent)
			_ = w.Conn.(interface{ CloseWrite() error }).CloseWrite()
			if b, _ := io.ReadAll(w); len(b) != 0 {
				t.Errorf("%s: %s answered %q", name, by, b)
			}
		}
	}
}

func TestALoginThatTakesTooLongIsEnded(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]byte{
		"nothing":                  nil,
		"half a packet":            startupOf(0, "user", "app")[:9],
		"a request for encryption": request(wire.SSLRequest),
	} {
		t.Run(name, func(t *testing.T) {
			g := fencedBy(t, setup{Options: Options{LoginTimeout: 100 * time.Millisecond}})
			w := dialWire(t, g.Addr)
			w.send(sent)
			start := time.Now()
			_, _ = io.ReadAll(w)
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("the connection was kept for %v", d)
			}
		})
	}
}

func TestNothingButTheLoginReachesTheDatabaseBeforeAdmission(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	tap, control := tapBefore(t, pg, database)
	stop := gateAt(0)
	release := sync.OnceFunc(func() { close(stop.open) })
	g := guardBefore(t, pg, database, setup{control: control, wrap: stop.wrap, Options: Options{
		// while the test inspects the state
		Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: time.Minute},
	}})
	defer release()
	w := dialWire(t, g.Addr)
	packet := startupOf(0, "user", "app", "database", database, "options", "-c fence.orders=5")
	early := join(encode('p', "secret\x00"),
		encode('Q', "insert into ledger (token) values (5)\x00"))
	w.send(packet, early)
	stop.await(t)
	tag := encode('Q', pgmarks.NewTag()+"\x00") // the guard's, with another name in it
	sent := tap.sentBy("app")
	if len(sent) != 1 || len(sent[0]) != len(packet)+len(tag) || !bytes.HasPrefix(sent[0], packet) ||
		!bytes.HasPrefix(sent[0][len(packet):], tag[:len("Q....")+len("/* ringfence ")]) {
		t.Fatalf("before admission the server got %q", sent)
	}
	tag = sent[0][len(packet):]
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows before admission", n)
	}
	release()
	w.until("Z")
	// the server rejects the unexpected password message, as it would without a guard
	if m := w.next(); m.kind != 'E' {
		t.Errorf("the early bytes were answered with %q", m.kind)
	}
	if sent := tap.sentBy("app"); !bytes.Equal(sent[0], join(packet, tag, early)) {
		t.Errorf("the server got %q", sent[0])
	}
}

func TestEarlyBytesOfARefusedClientAreDropped(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	tap, control := tapBefore(t, pg, database)
	g := guardBefore(t, pg, database, setup{control: control})
	g.open(7)
	w := dialWire(t, g.Addr)
	packet := startupOf(0, "user", "app", "database", database, "options", "-c fence.orders=5")
	w.send(packet, encode('Q', "insert into ledger (token) values (5)\x00"), encode('X'))
	if e := w.until("E"); e.error(t).Code != "RF001" {
		t.Errorf("got %+v", e.error(t))
	}
	if rest := w.rest(); len(rest) > 0 {
		t.Errorf("after the refusal came %q", rest)
	}
	for _, sent := range tap.sentBy("app") {
		if bytes.Contains(sent, []byte("fence.orders=5")) &&
			bytes.Contains(sent, []byte("ledger")) {
			t.Errorf("the server got %q", sent)
		}
	}
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// The mark stores the holder as text, and messages to other clients quote it.
func TestAnApplicationNameInAnyEncodingIsAdmittedAndCleaned(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	w := dialWire(t, g.Addr)
	w.login("user", "app", "database", g.database, "options", "-c fence.orders=5",
		"application_name", "caf\xe9\n\x1b[31m"+strings.Repeat("x", 5000))
	n := g.count(`select count(*) from ringfence_private.mark
	    where holder ~ '^app@127.0.0.1:[0-9]+ \(caf\?\?\?\[31mx{53}\)$'`)
	if n != 1 {
		t.Error("the holder is stored without being cleaned")
	}
}
