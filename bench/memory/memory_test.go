package memory

import (
	"io"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/bench/internal/program"
)

func TestArguments(t *testing.T) {
	s := New().(*settings)
	err := program.Parse(s, "memory",
		[]string{"-rows", "idle", "-sessions", "10,200", "-cycles", "500"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.sessions, []int{10, 200}) || s.cycles != 500 || s.marks != 100000 {
		t.Errorf("got %+v", s)
	}
	for _, wrong := range [][]string{
		{"-sessions", ""}, {"-sessions", "0"}, {"-sessions", "x"}, {"-cycles", "1"}, {"-marks", "0"},
		{"more"},
	} {
		if err := program.Parse(New(), "memory", wrong, io.Discard); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestTheFileLimitIsNotLowered(t *testing.T) {
	before := allowFiles(1)
	if after := allowFiles(1); after < before || after < 1 {
		t.Errorf("%d, then %d", before, after)
	}
}
