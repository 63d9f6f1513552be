package postgres

import "strings"

// Function is a function of the schema ringfence.
type Function struct {
	Signature string // as regprocedure reads it
	Text      string // as in pg_proc.prosrc
}

// Sealing returns the functions that decide whether a sealed table takes a statement, as an
// installation creates them.
func Sealing() ([]Function, error) {
	var all []Function
	for _, f := range []struct{ file, name, parameters string }{
		{"sql/seal.sql", "ringfence.seal(", ")"},
		{"sql/seal.sql", "ringfence.enter_as_claimed(", "text, text)"},
		{"sql/enter.sql", "ringfence.enter(", "text, bigint, text, text)"},
	} {
		file, err := sqlFiles.ReadFile(f.file)
		if err != nil {
			return nil, err
		}
		_, text, _ := strings.Cut(string(file), "create or replace function "+f.name)
		_, text, _ = strings.Cut(text, " as $$")
		text, _, _ = strings.Cut(text, "$$;")
		all = append(all, Function{f.name + f.parameters, text})
	}
	return all, nil
}
