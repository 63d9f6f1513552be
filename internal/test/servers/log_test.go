package servers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

func TestLogTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	must.Succeed(t, os.WriteFile(file, []byte("old\none\ntwo\nthree\n"), 0o644))
	for _, c := range []struct {
		from int64
		n    int
		want string
	}{{0, 2, "two\nthree"}, {4, 9, "one\ntwo\nthree"}, {18, 9, ""}} {
		if got := tail(file, c.from, c.n); got != c.want {
			t.Errorf("tail(%d, %d) = %q, want %q", c.from, c.n, got, c.want)
		}
	}
	if got := tail(file+"x", 0, 1); got != "" {
		t.Errorf("of no file: %q", got)
	}
}
