package relay

import (
	"net"
	"sync"
)

// BufferSize is how many bytes a Walker sees at once at most.
const BufferSize = 16 << 10

// buffer holds the bytes of one direction that the Walker is not done with. It borrows its memory,
// so that a session through which nothing passes holds none.
type buffer struct {
	memory []byte // nil while nothing is borrowed
	held   int    // bytes in use
	lent   *[BufferSize]byte
}

// lender is a connection that fills a buffer without holding memory while it waits.
type lender interface {
	readInto(b *buffer) (int, error)
}

var idleBuffers = sync.Pool{New: func() any { return new([BufferSize]byte) }}

// borrow returns the free part of the memory.
func (b *buffer) borrow() []byte {
	if b.memory == nil {
		b.lent = idleBuffers.Get().(*[BufferSize]byte)
		b.memory = b.lent[:]
	}
	return b.memory[b.held:]
}

// giveBack returns borrowed memory that holds nothing.
func (b *buffer) giveBack() {
	if b.held == 0 && b.lent != nil {
		idleBuffers.Put(b.lent)
		b.memory, b.lent = nil, nil
	}
}

// readFrom reads into what is free.
func (b *buffer) readFrom(c net.Conn) (int, error) {
	if lends, ok := c.(lender); ok {
		return lends.readInto(b)
	}
	return c.Read(b.borrow())
}

// used forgets the first n bytes.
func (b *buffer) used(n int) { b.held = copy(b.memory, b.memory[n:b.held]) }

func (b *buffer) full() bool { return b.held == len(b.memory) }
