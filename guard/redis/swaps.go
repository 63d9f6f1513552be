package redis

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
)

// swaps are the answers of the guard's own that wait for their place in the server's stream. For each, a command that
// no server knows was sent, with a name that no client can guess; the server's error for it is swapped for the answer.
type swaps struct {
	name []byte // RINGFENCE-<nonce>-

	mu      sync.Mutex
	sent    int
	waiting [][]byte // answers to the last len(waiting) commands sent
	final   int      // the sentinel of draining
}

// waitingMost bounds what a client can make the guard keep, by turning replies off and having commands refused.
const waitingMost = 100_000

var errWaiting = errors.New("too many refused commands have not been answered")

func newSwaps() *swaps {
	return &swaps{name: []byte("RINGFENCE-" + rand.Text() + "-")}
}

// add keeps an answer and returns the command to send in place of the client's.
func (s *swaps) add(answer []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	s.waiting = append(s.waiting, answer)
	return command(string(s.name) + strconv.Itoa(s.sent))
}

// last returns the sentinel: its answer ends the connection.
func (s *swaps) last() []byte {
	b := s.add(errorLine("guard: " + errDraining.Error()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final = s.sent
	return b
}

// errorMost is how much of an error of the server is looked at for a name of ours. Redis cuts the name at 128 bytes.
const errorMost = 256

// find looks whether an error reply answers one of our commands. b begins with it. size is the reply's length on the
// wire, 0 when it is none of ours; more says that b does not show yet.
func (s *swaps) find(b []byte) (answer []byte, size int, final, more bool) {
	end := bytes.IndexByte(b[:min(len(b), errorMost)], '\n')
	if end < 0 && len(b) < errorMost {
		return nil, 0, false, true
	}
	if end < 0 {
		return nil, 0, false, false
	}
	at := bytes.Index(b[:end], s.name)
	if at < 0 {
		return nil, 0, false, false
	}
	number := 0
	for _, c := range b[at+len(s.name) : end] {
		if c < '0' || c > '9' {
			break
		}
		number = number*10 + int(c-'0')
	}
	answer, final = s.take(number)
	if answer == nil {
		return nil, 0, false, false
	}
	return answer, end + 1, final, false
}

// take hands out the answer to a command. Those before it were never answered: the client had turned replies off.
func (s *swaps) take(number int) (answer []byte, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.sent - len(s.waiting) + 1
	if number < first || number > s.sent {
		return nil, false
	}
	answer = s.waiting[number-first]
	s.waiting = s.waiting[number-first+1:]
	return answer, number == s.final
}

// full says that no more may be added.
func (s *swaps) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) >= waitingMost
}
