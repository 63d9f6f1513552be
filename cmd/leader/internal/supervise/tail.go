package supervise

import (
	"strings"
	"sync"
)

// Tail keeps the last Max bytes that a command writes. It may be read meanwhile.
type Tail struct {
	Max  int
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if len(t.text) > 2*t.Max {
		t.text = append([]byte(nil), t.text[len(t.text)-t.Max:]...)
	}
	return len(b), nil
}

// String returns what was kept, as valid UTF-8.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text[max(0, len(t.text)-t.Max):]), "?")
}
