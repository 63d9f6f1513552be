package relay

import "sync"

// BufferSize is how many bytes a Walker sees at once at most.
const BufferSize = 16 << 10

// buffer holds the bytes of one direction that the Walker is not done with. It borrows its memory,
// so that a session of a loop through which nothing passes holds none.
type buffer struct {
	memory *[BufferSize]byte // nil while nothing is borrowed
	held   int               // bytes in use
}

var idleBuffers = sync.Pool{New: func() any { return new([BufferSize]byte) }}

// borrow returns the free part of the memory.
func (b *buffer) borrow() []byte {
	if b.memory == nil {
		b.memory = idleBuffers.Get().(*[BufferSize]byte)
	}
	return b.memory[b.held:]
}

// giveBack returns borrowed memory that holds nothing.
func (b *buffer) giveBack() {
	if b.held == 0 && b.memory != nil {
		idleBuffers.Put(b.memory)
		b.memory = nil
	}
}

// used forgets the first n bytes.
func (b *buffer) used(n int) { b.held = copy(b.memory[:], b.memory[n:b.held]) }

func (b *buffer) full() bool { return b.held == len(b.memory) }
