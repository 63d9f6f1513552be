package supervise

import "testing"

func TestParseStatReadsAnyProcessName(t *testing.T) {
	got, ok := parseStat("42 (a) Z (b) c) T 7 9 9 0 -1")
	if want := (Process{Pid: 42, Parent: 7, Group: 9, State: "T"}); !ok || got != want {
		t.Errorf("got %+v, %t", got, ok)
	}
	for _, bad := range []string{"", "42", "42 (a) T", "x (a) T 1 1"} {
		if _, ok := parseStat(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}
