package relay

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// onEachTLS runs a test whose client uses TLS and whose server does not, with goroutines and in a
// loop.
func onEachTLS(t *testing.T, o func() *encrypting, test func(*testing.T, engine)) {
	t.Run("goroutines", func(t *testing.T) { test(t, inTurn(o().engine(t), inGoroutine)) })
	t.Run("loops", func(t *testing.T) { test(t, onLoop(t, inTurn(o().engine(t), inGoroutine))) })
}

// crumbs sends each byte alone.
type crumbs struct{ net.Conn }

func (c crumbs) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		_, err = c.Conn.Write(b[n : n+1])
		n++
	}
	return n, err
}

func TestARecordThatArrivesInPartsPasses(t *testing.T) {
	inCrumbs := func() *encrypting {
		return &encrypting{below: func(far net.Conn) net.Conn { return crumbs{far} }}
	}
	onEachTLS(t, inCrumbs, func(t *testing.T, engine engine) {
		r := relay(t, engine, through{}, through{})
		for range 20 {
			passes(t, r)
		}
		_ = r.client.CloseWrite()
		if b, err := io.ReadAll(r.server); err != nil || len(b) > 0 {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// held sends its first Write at once, and the rest together when it is released.
type held struct {
	net.Conn
	started bool
	rest    bytes.Buffer
}

func (h *held) Write(b []byte) (int, error) {
	if h.started {
		return h.rest.Write(b)
	}
	h.started = true
	return h.Conn.Write(b)
}

// TLS reads more than the handshake, if more has come. No event of the socket tells of it
// afterwards.
func TestWhatTLSHasReadDuringTheHandshakePasses(t *testing.T) {
	early := func() *encrypting {
		var h *held
		return &encrypting{
			below: func(far net.Conn) net.Conn {
				h = &held{Conn: far}
				return h
			},
			early: func(client *tls.Conn) {
				_, _ = client.Write([]byte("early"))
				_, _ = h.Conn.Write(h.rest.Bytes())
			},
		}
	}
	onEachTLS(t, early, func(t *testing.T, engine engine) {
		r := relay(t, engine, through{}, through{})
		got := make([]byte, len("early"))
		if _, err := io.ReadFull(r.server, got); err != nil || string(got) != "early" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A guard may write to the server itself while it relays.
func TestWhatOthersWriteToTheServerMeanwhileArrivesWhole(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		r := relay(t, engine, through{}, through{})
		part := strings.Repeat("-", 300)
		writers := []net.Conn{r.client, r.outer, r.outer, r.outer}
		const each = 2000
		var writing sync.WaitGroup
		for _, to := range writers {
			writing.Go(func() {
				for range each {
					_, _ = io.WriteString(to, part)
				}
			})
		}
		got := make([]byte, len(writers)*each*len(part))
		if n, err := io.ReadFull(r.server, got); err != nil || strings.Trim(string(got), "-") != "" {
			t.Errorf("%d bytes of %d, %v", n, len(got), err)
		}
		writing.Wait()
	})
}

// What a client has got of a record is of no use without the rest.
func TestNothingFollowsARecordThatWasCutOff(t *testing.T) {
	onEachTLS(t, func() *encrypting { return &encrypting{} }, func(t *testing.T, engine engine) {
		r := relay(t, engine, through{}, through{})
		full(r.server)
		r.cut(nil)
		<-r.end
		_ = r.inner.SetDeadline(time.Now().Add(20 * time.Second))
		var reading sync.WaitGroup
		reading.Go(func() {
			_, err := io.Copy(io.Discard, r.client)
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
		if _, err := r.inner.Write([]byte("words")); err == nil {
			t.Error("what follows was sent")
		}
		_ = r.inner.Close()
		reading.Wait()
	})
}

// sender encrypts what a client sends, beside its tls.Conn, which cannot ask for new keys.
type sender struct {
	secret []byte
	number uint64 // of the next record under this secret
}

// newSender takes over from a client that has sent nothing but its handshake. keys is what its
// KeyLogWriter has got.
func newSender(t *testing.T, client peer, keys string) *sender {
	t.Helper()
	state := client.(*tls.Conn).ConnectionState()
	if state.CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("this processor has no AES, so TLS uses %s", tls.CipherSuiteName(state.CipherSuite))
	}
	_, after, _ := strings.Cut(keys, "CLIENT_TRAFFIC_SECRET_0 ")
	secret, err := hex.DecodeString(strings.Fields(after)[1])
	if err != nil {
		t.Fatal(err)
	}
	return &sender{secret: secret}
}

// derive is HKDF-Expand-Label (RFC 8446, 7.1).
func (s *sender) derive(label string, n int) []byte {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(append(append(info, byte(len(label))), label...), 0)
	b, err := hkdf.Expand(sha256.New, s.secret, string(info), n)
	if err != nil {
		panic(err)
	}
	return b
}

const (
	handshakeRecord = 22
	dataRecord      = 23
)

// record encrypts a record (RFC 8446, 5.2).
func (s *sender) record(kind byte, content string) []byte {
	block, err := aes.NewCipher(s.derive("key", 16))
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	nonce := s.derive("iv", 12)
	for i, b := range binary.BigEndian.AppendUint64(nil, s.number) {
		nonce[4+i] ^= b
	}
	s.number++
	header := []byte{dataRecord, 3, 3, 0, byte(len(content) + 1 + gcm.Overhead())}
	return gcm.Seal(header, nonce, append([]byte(content), kind), header)
}

// newKeys asks the peer for new keys, and uses new ones from then on (RFC 8446, 4.6.3).
func (s *sender) newKeys() []byte {
	b := s.record(handshakeRecord, "\x18\x00\x00\x01\x01")
	s.secret, s.number = s.derive("traffic upd", sha256.Size), 0
	return b
}

// keyed is what a client has below TLS, with its keys.
type keyed struct {
	below *tlsconfig.Transport
	keys  bytes.Buffer
}

func (k *keyed) encrypting() *encrypting {
	k.keys.Reset()
	return &encrypting{
		config: tls.Config{KeyLogWriter: &k.keys, MinVersion: tls.VersionTLS13},
		below: func(far net.Conn) net.Conn {
			k.below = tlsconfig.NewTransport(far, nil)
			return k.below
		},
	}
}

func TestAClientThatWantsNewKeysGetsThemAtOnce(t *testing.T) {
	var k keyed
	onEachTLS(t, k.encrypting, func(t *testing.T, engine engine) {
		r := relay(t, engine, through{}, through{})
		s, conn := newSender(t, r.client, k.keys.String()), k.below.Conn()
		if _, err := r.server.Write([]byte("before")); err != nil { // after the tickets of the handshake
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r.client, make([]byte, len("before"))); err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(s.newKeys())
		answer := make([]byte, 27) // a record with 5 bytes
		if _, err := io.ReadFull(conn, answer); err != nil {
			t.Fatal("no answer:", err)
		}
		k.below.Replace(tlsconfig.NewTransport(conn, answer))
		_, _ = conn.Write(s.record(dataRecord, "question"))
		got := make([]byte, len("question"))
		if _, err := io.ReadFull(r.server, got); err != nil || string(got) != "question" {
			t.Fatalf("%q, %v", got, err)
		}
		_, _ = r.server.Write([]byte("answered"))
		if _, err := io.ReadFull(r.client, got); err != nil || string(got) != "answered" {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

// The answer to such a client waits for what it does not read.
func TestAClientThatWantsNewKeysAndDoesNotReadHoldsUpNobodyElse(t *testing.T) {
	var k keyed
	onEachTLS(t, k.encrypting, func(t *testing.T, engine engine) {
		r := relay(t, engine, through{}, through{})
		s, conn := newSender(t, r.client, k.keys.String()), k.below.Conn()
		other := relay(t, engine, through{}, through{})
		full(r.server)
		_, _ = conn.Write(s.newKeys())
		for range 3 {
			passes(t, other)
		}
		start := time.Now()
		r.cut(nil)
		<-r.end
		if d := time.Since(start); d >= Linger {
			t.Errorf("it took %v to stop the relay", d)
		}
	})
}
