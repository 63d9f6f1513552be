package readonly

import (
	"runtime"
	"strings"
	"testing"
)

func FuzzJudge(f *testing.F) {
	for _, text := range []string{
		"select 1; commit", "explain (analyze) select 1", "explain analyze verbose execute a", "(table ledger)",
		"prepare a (int) as (select 1)", "prepare transaction 'a'", "set local transaction_read_only = off",
		"set session characteristics as transaction read write", "copy (select 1) to stdout", "copy a from stdin",
		"begin read write", "rollback prepared 'a'", "declare a cursor for select 1", ";;", "(", "explain (",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if j := judge(text); j.refused != "" && (j.ends || j.depends) {
			t.Errorf("%+v", j)
		}
	})
}

// A text costs the guard little more than its own size. Many clients may send one at the same time.
func TestAnyTextIsJudgedInLittleMemory(t *testing.T) {
	const most = 1 << 20
	for _, c := range []struct{ text, refused string }{
		{strings.Repeat(";", most), ""},
		{strings.Repeat("select 1;", most/9), ""},
		{"select " + strings.Repeat("1,", 45_000) + "1", ""},
		{"select " + strings.Repeat("1,", 60_000) + "1", tooLong},
		{strings.Repeat("(", most), tooLong},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		j := judge(c.text)
		runtime.ReadMemStats(&after)
		if j.refused != c.refused {
			t.Errorf("%.20s…: refused: %q, want %q", c.text, j.refused, c.refused)
		}
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 32<<20 {
			t.Errorf("%.20s…: %d MiB", c.text, bytes>>20)
		}
	}
}
