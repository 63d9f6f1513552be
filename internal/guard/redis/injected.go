package redis

import (
	"bytes"
	"crypto/rand"
	"strconv"
	"sync"

	"github.com/ringfence/ringfence/internal/refusal"
)

// swaps are the answers of the guard's own that wait for their place in the server's stream. For each, a command that
// no server knows was sent, with a name that no client can guess; the server's error for it is swapped for the answer.
//
// A client can have its commands refused and its replies turned off, or unread, so what waits is bounded: answers that
// are equal are kept once, and the session ends when there are too many or when they are too long (refusal.TooManyRefused).
type swaps struct {
	name []byte // RINGFENCE-<nonce>-

	mu      sync.Mutex
	sent    int
	waiting []*answer // to the last len(waiting) commands sent
	kept    map[string]*answer
	bytes   int // of the answers in kept, with what each takes beside its text
	final   int // the sentinel of draining
}

// answer is what is said in the place of an error of the server's.
type answer struct {
	text  string
	waits int // for how many commands it waits
}

// What waits for one session takes less than 600 KB.
const (
	waitingMost = 16 << 10  // answers, of 8 bytes in a slice that has room to grow
	bytesMost   = 256 << 10 // of answers that differ
	keptBeside  = 128       // what one takes in kept, beside its text
)

func newSwaps() *swaps {
	return &swaps{name: []byte("RINGFENCE-" + rand.Text() + "-"), kept: make(map[string]*answer)}
}

// add keeps an answer and returns the command to send in place of the client's, or refusal.TooManyRefused.
func (s *swaps) add(text []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= waitingMost || s.bytes >= bytesMost {
		return nil, refusal.TooManyRefused
	}
	return s.next(text), nil
}

// last returns the sentinel: its answer ends the connection.
func (s *swaps) last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.next(errorLine("guard: " + errDraining.Error()))
	s.final = s.sent
	return b
}

// next keeps an answer to the command that it returns.
func (s *swaps) next(text []byte) []byte {
	a := s.kept[string(text)]
	if a == nil {
		a = &answer{text: string(text)}
		s.kept[a.text] = a
		s.bytes += len(a.text) + keptBeside
	}
	a.waits++
	s.sent++
	s.waiting = append(s.waiting, a)
	return command(string(s.name) + strconv.Itoa(s.sent))
}

// forget drops the answers to the first n commands that wait.
func (s *swaps) forget(n int) {
	for _, a := range s.waiting[:n] {
		if a.waits--; a.waits == 0 {
			delete(s.kept, a.text)
			s.bytes -= len(a.text) + keptBeside
		}
	}
	clear(s.waiting[:n]) // or they would be kept for as long as the array is
	if s.waiting = s.waiting[n:]; len(s.waiting) == 0 {
		s.waiting = nil
	}
}

// errorMost is how much of an error of the server is looked at for a name of ours. Redis cuts the name at 128 bytes.
const errorMost = 256

// find looks whether an error reply answers one of our commands. b begins with it. size is the reply's length on the
// wire, 0 when it is none of ours; more says that b does not show yet.
func (s *swaps) find(b []byte) (answer string, size int, final, more bool) {
	end := bytes.IndexByte(b[:min(len(b), errorMost)], '\n')
	if end < 0 && len(b) < errorMost {
		return "", 0, false, true
	}
	if end < 0 {
		return "", 0, false, false
	}
	at := bytes.Index(b[:end], s.name)
	if at < 0 {
		return "", 0, false, false
	}
	number := 0
	for _, c := range b[at+len(s.name) : end] {
		if c < '0' || c > '9' {
			break
		}
		number = number*10 + int(c-'0')
	}
	answer, final = s.take(number)
	if answer == "" {
		return "", 0, false, false
	}
	return answer, end + 1, final, false
}

// take hands out the answer to a command. Those before it were never answered: the client had turned replies off.
func (s *swaps) take(number int) (text string, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.sent - len(s.waiting) + 1
	if number < first || number > s.sent {
		return "", false
	}
	text = s.waiting[number-first].text
	s.forget(number - first + 1)
	return text, number == s.final
}
