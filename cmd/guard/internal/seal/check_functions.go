package seal

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/postgres/pgschema"
)

// functionsSQL finds which of the functions $1 are missing, or have not the text $2 and the
// properties that an installation gives them.
const functionsSQL = `
select w.signature, case when p.oid is null then 'there is no such function' else 'it is not the function that this program installs' end
  from unnest($1::text[], $2::text[]) w(signature, source) left join pg_proc p on p.oid = to_regprocedure(w.signature)
 where (p.prosrc = w.source and p.prosecdef and p.proconfig = array['search_path=pg_catalog, pg_temp']) is not true
 order by w.signature`

// findFunctions looks at the functions that decide for a sealed table.
func findFunctions(ctx context.Context, tx pgx.Tx) ([]Finding, error) {
	var signatures, texts []string
	for _, f := range pgschema.Sealing() {
		signatures, texts = append(signatures, f.Signature), append(texts, f.Text)
	}
	rows, err := tx.Query(ctx, functionsSQL, signatures, texts)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Finding, error) {
		f := Finding{
			ID: "function-changed",
			Why: "seals call it, so who has replaced it decides what they let through; " +
				"an installation by another version of the program looks the same",
			Do: "guard install, and find out who has changed it",
		}
		err := row.Scan(&f.Object, &f.What)
		return f, err
	})
}
