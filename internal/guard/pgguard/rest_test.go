package pgguard

import (
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// What the guard believes of a session is compared with what the server runs. Random messages go to
// the server, and some of them are held on their way, or come too late for a statement timeout. The
// guard may count wrongly, and it does. But it must not be able to prove that a session is at rest
// whose messages have not all been executed.
func TestNoSessionIsProvedToBeAtRestWhileSomethingIsUnderWay(t *testing.T) {
	t.Parallel()
	const sequences = 150
	admission := &marks.Admission{Authority: marks.Unverified{}}
	g, p := tappedGuard(t, setup{Options: Options{Admission: admission}})
	miscounted, proved := 0, 0
	for seed := range uint64(sequences) {
		s := g.random(p, admission, seed)
		s.play()
		if _, guessed := s.out.Quiet(); guessed {
			if s.last.holds() {
				miscounted++
			}
			if s.prove() {
				proved++
			}
		}
		s.end()
	}
	t.Logf("of %d sequences %d were counted wrongly, and %d sessions proved to be at rest",
		sequences, miscounted, proved)
	if miscounted == 0 || proved == 0 {
		t.Error("the messages are too tame to show anything")
	}
}

// randomSession is a client that sends random messages.
type randomSession struct {
	*rawClient
	g         *guarded
	admission *marks.Admission
	rnd       *rand.Rand
	last      *tapped // its connection from the guard to the server
	open      marks.OpenSession
	out       *progress // what the guard counts
}

func (g *guarded) random(p *tap, a *marks.Admission, seed uint64) *randomSession {
	g.t.Helper()
	w := dialWire(g.t, g.Addr)
	w.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
	all := p.of("app")
	s := &randomSession{
		rawClient: w, g: g, admission: a, rnd: rand.New(rand.NewPCG(seed, 1)), last: all[len(all)-1],
	}
	for s.out == nil { // the guard starts the relay when the client has its answer
		for _, open := range a.Sessions() {
			if open.Client.Address == w.LocalAddr().String() && open.Relayed != nil {
				s.open, s.out = open, open.Relayed.(*progress)
			}
		}
	}
	if s.rnd.IntN(3) > 0 {
		w.query("set statement_timeout = 20")
		w.until("Z")
	}
	go func() { _, _ = io.Copy(io.Discard, w.r) }()
	return s
}

// randomMessages are what a sequence is made of.
var randomMessages = [][]byte{
	encode('P', "\x00insert into ledger (token) values (5)\x00\x00\x00"),
	encode('P', "\x00select 1\x00\x00\x00"),
	encode('P', "\x00nonsense\x00\x00\x00"),
	encode('B', "\x00\x00\x00\x00\x00\x00\x00\x00"),
	encode('D', "S\x00"),
	encode('E', "\x00\x00\x00\x00\x00"),
	encode('C', "S\x00"),
	encode('H'),
	encode('S'),
	encode('Q', "insert into ledger (token) values (5)\x00"),
	encode('Q', "begin\x00"),
	encode('Q', "commit\x00"),
	encode('Q', "select pg_sleep(0.005)\x00"),
	encode('Q', "copy ledger (token) from stdin\x00"),
	encode('Q', "copy ledger (token) to stdout\x00"),
	encode('Q', "\x00"),
	encode('F', "\x00\x00\x07\xea\x00\x00\x00\x00\x00\x01"), // pg_backend_pid()
	encode('d', "5\n"),
	encode('c'),
	encode('f', "no\x00"),
}

// late is a batch whose statement timeout passes before its end.
var late = join(randomMessages[1], encode('H'))

// play sends some messages, the last of which may be held on their way to the server.
func (s *randomSession) play() {
	for range 1 + s.rnd.IntN(2) {
		var all []byte
		if s.rnd.IntN(3) > 0 {
			s.write(late)
			time.Sleep(25 * time.Millisecond) // the timeout has to pass
			all = encode('d', "x")
		}
		for range 1 + s.rnd.IntN(4) {
			all = append(all, randomMessages[s.rnd.IntN(len(randomMessages))]...)
		}
		all = append(all, randomMessages[s.rnd.IntN(2)+8]...) // Sync or an insert
		if s.rnd.IntN(2) == 0 {
			s.last.passOnly(s.rnd.IntN(len(all)))
		}
		s.write(all)
	}
	s.settle()
}

func (s *randomSession) write(b []byte) { _, _ = s.Write(b) }

// settle waits until the guard has seen for a while what there is to see.
func (s *randomSession) settle() {
	for same, last := 0, s.look(); same < 5; {
		time.Sleep(2 * time.Millisecond)
		now := s.look()
		if same++; now != last {
			same, last = 0, now
		}
	}
}

type seen struct{ pending, sent int }

func (s *randomSession) look() seen {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return seen{s.out.pending, len(s.last.sent())}
}

// prove asks for the proof, at first while messages may be held, and later not. Nothing may be
// written after it was given.
func (s *randomSession) prove() bool {
	s.t.Helper()
	for n := range 8 {
		if n == 3 {
			s.last.pass()
		}
		holds := n < 3 && s.last.holds()
		if s.admission.LetGo(s.t.Context(), s.open.Session, []marks.Presented{s.open.Claim},
			s.out.statement) {
			if holds {
				s.t.Error("a session was proved to be at rest while messages to the server were held")
			}
			before := s.g.count("select count(*) from ledger")
			s.end()
			if after := s.g.count("select count(*) from ledger"); after != before {
				s.t.Errorf("%d writes after the proof", after-before)
			}
			return true
		}
		backoff.Pause(s.t.Context(), 5*time.Millisecond)
	}
	return false
}

// end closes the connection and waits until the server has ended the session.
func (s *randomSession) end() {
	s.last.pass()
	s.Close()
	s.g.until(sessionsWhere+"usename = 'app'", 0)
}
