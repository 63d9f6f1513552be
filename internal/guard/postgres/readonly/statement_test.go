package readonly

import "testing"

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
