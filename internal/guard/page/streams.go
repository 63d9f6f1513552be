package page

import "sync"

// streamsMost is how many streams there may be at once.
const streamsMost = 32

// streams counts the open streams.
type streams struct {
	stop chan struct{} // closed when they have to end

	mu      sync.Mutex
	count   int
	closed  bool
	running sync.WaitGroup
}

// begin reports whether one more stream may begin.
func (s *streams) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.count >= streamsMost {
		return false
	}
	s.count++
	s.running.Add(1)
	return true
}

func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	s.running.Done()
}

func (s *streams) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// close ends all streams and returns when they have ended.
func (s *streams) close() {
	s.mu.Lock()
	s.closed = true
	close(s.stop)
	s.mu.Unlock()
	s.running.Wait()
}
