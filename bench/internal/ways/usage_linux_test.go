package ways

import (
	"os"
	"testing"
	"time"
)

func TestCPUTimeIsReadBehindAnyName(t *testing.T) {
	const rest = " S 1 2 3 0 -1 4194560 900 0 3 0 250 50 7 3 20 0 9 0 100 1 2 3"
	for _, name := range []string{"(guard)", "(a b)", "(a) b)", "(()"} {
		got, ok := parseCPUTime("42 " + name + rest)
		if want := 3100 * time.Millisecond; !ok || got != want {
			t.Errorf("%s: %v %v, want %v", name, got, ok, want)
		}
	}
	for _, wrong := range []string{"", "42 (guard) S 1", "42 (guard) S 1 2 3 0 -1 4194560 900 0 3 0 " +
		"x 50 7 3 20"} {
		if got, ok := parseCPUTime(wrong); ok {
			t.Errorf("%q is read as %v", wrong, got)
		}
	}
}

func TestThisProcessHasMemory(t *testing.T) {
	if n, err := resident(os.Getpid()); err != nil || n < 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
