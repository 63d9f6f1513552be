package pgschema

import "strings"

// Function is a function of the schema ringfence.
type Function struct {
	Signature string // as regprocedure reads it
	Text      string // as in pg_proc.prosrc
}

// Sealing returns the functions that decide whether a sealed table takes a statement, as an
// installation creates them.
func Sealing() (all []Function) {
	for _, f := range []struct{ file, begins, signature string }{
		{"seal", "ringfence.seal()", "ringfence.seal()"},
		{"seal", "ringfence.enter_as_claimed(", "ringfence.enter_as_claimed(text, text)"},
		{"enter", "ringfence.enter(resource", "ringfence.enter(text, bigint, text, text)"},
	} {
		_, text, _ := strings.Cut(file(f.file), "create or replace function "+f.begins)
		_, text, _ = strings.Cut(text, " as $$")
		text, _, _ = strings.Cut(text, "$$;")
		all = append(all, Function{f.signature, text})
	}
	return all
}
