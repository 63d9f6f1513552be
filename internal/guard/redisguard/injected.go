package redisguard

import (
	"bytes"
	"crypto/rand"
	"strconv"
	"sync"

	"github.com/ringfence/ringfence/internal/marks/redismarks"

	"github.com/ringfence/ringfence/internal/refusal"
)

// injectedReplies are the guard's replies that wait for their places in the server's stream. For
// each, the guard has sent a command that no server knows, with a name that no client can guess.
// The guard replaces the server's error for it by the injected reply.
//
// A client can have its commands refused and its replies turned off, or unread, so the waiting
// replies are limited: equal replies are kept once, and the session ends when there are too many or
// they are too long (refusal.TooManyRefused).
type injectedReplies struct {
	prefix []byte // RINGFENCE-<nonce>-

	mu             sync.Mutex
	sent           int
	waiting        []*injectedReply // to the last len(waiting) commands sent
	distinct       map[string]*injectedReply
	bytes          int // memory of the replies in distinct, with the overhead of each
	sentinelNumber int // of the command that is the sentinel; 0 before
}

// injectedReply replaces one error of the server's.
type injectedReply struct {
	text    string
	pending int // how many commands wait for it
}

// The waiting replies of one session take less than 600 KB.
const (
	maxWaiting       = 16 << 10  // replies, of 8 bytes in a slice that has room to grow
	maxBytes         = 256 << 10 // of distinct replies
	distinctOverhead = 128       // memory of one in distinct, besides its text
)

func newInjectedReplies() *injectedReplies {
	return &injectedReplies{
		prefix:   []byte("RINGFENCE-" + rand.Text() + "-"),
		distinct: make(map[string]*injectedReply),
	}
}

// add queues a reply and returns the command to send instead of the client's, or
// refusal.TooManyRefused.
func (r *injectedReplies) add(text []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxWaiting || r.bytes >= maxBytes {
		return nil, refusal.TooManyRefused
	}
	return r.enqueue(text), nil
}

// sentinel returns a command whose reply is the last one, and ends the connection.
func (r *injectedReplies) sentinel(last error) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.enqueue(lineOf(last))
	r.sentinelNumber = r.sent
	return b
}

// enqueue queues a reply and returns the command whose error it will replace.
func (r *injectedReplies) enqueue(text []byte) []byte {
	reply := r.distinct[string(text)]
	if reply == nil {
		reply = &injectedReply{text: string(text)}
		r.distinct[reply.text] = reply
		r.bytes += len(reply.text) + distinctOverhead
	}
	reply.pending++
	r.sent++
	r.waiting = append(r.waiting, reply)
	return redismarks.Command(string(r.prefix) + strconv.Itoa(r.sent))
}

// forget drops the replies to the first n commands that wait.
func (r *injectedReplies) forget(n int) {
	for _, reply := range r.waiting[:n] {
		if reply.pending--; reply.pending == 0 {
			delete(r.distinct, reply.text)
			r.bytes -= len(reply.text) + distinctOverhead
		}
	}
	clear(r.waiting[:n]) // the array would keep them in memory
	if r.waiting = r.waiting[n:]; len(r.waiting) == 0 {
		r.waiting = nil
	}
}

// maxError limits how much of a server's error is searched for the name of one of our commands.
// Redis cuts the name at 128 bytes.
const maxError = 256

// match checks whether an error reply answers one of our commands. b begins with the reply. size is
// its length on the wire, or 0 when it answers another command. more means that b is too short to
// decide.
func (r *injectedReplies) match(b []byte) (answer string, size int, final, more bool) {
	end := bytes.IndexByte(b[:min(len(b), maxError)], '\n')
	if end < 0 && len(b) < maxError {
		return "", 0, false, true
	}
	if end < 0 {
		return "", 0, false, false
	}
	at := bytes.Index(b[:end], r.prefix)
	if at < 0 {
		return "", 0, false, false
	}
	number := 0
	for _, c := range b[at+len(r.prefix) : end] {
		if c < '0' || c > '9' {
			break
		}
		number = number*10 + int(c-'0')
	}
	answer, final = r.take(number)
	if answer == "" {
		return "", 0, false, false
	}
	return answer, end + 1, final, false
}

// take removes and returns the reply to a command. The commands before it got no reply: the client
// had turned replies off.
func (r *injectedReplies) take(number int) (text string, final bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.sent - len(r.waiting) + 1
	if number < first || number > r.sent {
		return "", false
	}
	text = r.waiting[number-first].text
	r.forget(number - first + 1)
	return text, number == r.sentinelNumber
}
