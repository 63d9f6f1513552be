package process

import "testing"

func TestParseStatReadsAnyProcessName(t *testing.T) {
	const rest = " 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"
	got, ok := parseStat("42 (a) Z (b) c) T 7 9 9" + rest)
	want := Process{Pid: 42, Parent: 7, Group: 9, Name: "a) Z (b) c", State: "T", Start: 4711}
	if !ok || got != want {
		t.Errorf("got %+v, %t", got, ok)
	}
	for _, bad := range []string{"", "42", "42 (a) T", "42 () ", "42 (a) T 1 1", "x (a) T 1 1 1" +
		rest} {
		if _, ok := parseStat(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}
