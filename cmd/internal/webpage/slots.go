package webpage

import (
	"slices"
	"sync"
)

// slots are shared by the addresses of clients, so that one of them cannot keep the others out.
type slots struct {
	max int
	// renews: an address that has its share gives up its oldest place for a new one.
	renews bool

	mu   sync.Mutex
	held []*slot // in the order in which they were taken
}

// slot is a slot that a client has.
type slot struct {
	address string
	end     func() // called if it is given to another client
}

// acquire gives a client a place, or returns nil. If all are taken, the address with the most of
// them loses its oldest one, unless the client's own address has as many.
func (p *slots) acquire(address string, end func()) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) >= p.max {
		out := p.victim(address)
		if out == nil {
			return nil
		}
		p.drop(out)
		out.end()
	}
	taken := &slot{address, end}
	p.held = append(p.held, taken)
	return taken
}

// victim returns the place that a new one of this address replaces, or nil.
func (p *slots) victim(address string) *slot {
	count := map[string]int{}
	for _, h := range p.held {
		count[h.address]++
	}
	most := address
	for _, h := range p.held { // in order, so that the same one is found each time
		// One more would only change sides: two clients that come back would take turns.
		if count[h.address] > count[most] && count[h.address] > count[address]+1 {
			most = h.address
		}
	}
	if most == address && !p.renews {
		return nil
	}
	at := slices.IndexFunc(p.held, func(h *slot) bool { return h.address == most })
	return p.held[max(at, 0)] // an address without any: each of the others has one
}

// release gives a place back, unless another client has it by now.
func (p *slots) release(h *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(h)
}

func (p *slots) drop(h *slot) {
	p.held = slices.DeleteFunc(p.held, func(other *slot) bool { return other == h })
}

func (p *slots) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}
