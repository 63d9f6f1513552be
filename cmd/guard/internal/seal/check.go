package seal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/refusal"
)

// Finding is one way in which a write could reach the database past guard and seals.
type Finding struct {
	// the kind, such as table-unsealed; it does not change between versions
	ID     string `json:"id"`
	Object string `json:"object"` // the table, role, address or setting that it is about
	What   string `json:"what"`
	Why    string `json:"why"`
	Do     string `json:"do"` // a command, or advice

	// Accepted means that the operator knows of it.
	Accepted bool `json:"accepted"`
}

// Report is what Check has found in one database.
type Report struct {
	Database string    `json:"database"`
	Schemas  []string  `json:"schemas"` // those that were checked
	Sealed   int       `json:"sealed"`  // tables with a seal
	Findings []Finding `json:"findings"`
}

// Accept marks the findings whose "id" or "id:object" is in the list. It returns the entries that
// fit no finding.
func (r *Report) Accept(list []string) (unused []string) {
	for _, entry := range list {
		fits := false
		for i, f := range r.Findings {
			if entry == f.ID || entry == f.ID+":"+f.Object {
				r.Findings[i].Accepted, fits = true, true
			}
		}
		if !fits {
			unused = append(unused, entry)
		}
	}
	return unused
}

// Open returns how many findings are not accepted.
func (r *Report) Open() int {
	n := 0
	for _, f := range r.Findings {
		if !f.Accepted {
			n++
		}
	}
	return n
}

// Check looks for what no seal covers: in these schemas, or in those with sealed tables, and in the
// settings of the server. The connection must lead straight to it: call Pooler first. guard is the
// role of the guard, which may do what others may not. What the role of the connection cannot see
// is a finding, too.
func Check(ctx context.Context, c *pgx.Conn, guard string, schemas ...string) (*Report, error) {
	r := &Report{Schemas: schemas, Findings: []Finding{}}
	err := looking(ctx, c, func(tx pgx.Tx) error {
		if err := r.describe(ctx, tx); err != nil {
			return err
		}
		var server int
		if err := tx.QueryRow(ctx,
			"select current_setting('server_version_num')::integer").Scan(&server); err != nil {
			return err
		}
		for _, k := range slices.Concat(tableKinds, roleKinds, serverKinds, directKinds) {
			if server < k.from {
				continue
			}
			found, err := k.find(ctx, tx, r.Schemas, guard)
			if err != nil {
				return fmt.Errorf("look for %s: %w", k.id, err)
			}
			r.Findings = append(r.Findings, found...)
		}
		found, err := findFunctions(ctx, tx)
		if err != nil {
			return err
		}
		r.Findings = append(r.Findings, found...)
		found, err = findNetwork(ctx, tx, r.Schemas, guard)
		r.Findings = append(r.Findings, found...)
		return err
	})
	return r, err
}

// describeSQL chooses the schemas to check: those that were named ($1), those with sealed tables,
// or public.
const describeSQL = seals + `, sealed as (
    select distinct n.nspname as schema from seals s join pg_class c on c.oid = s.oid join pg_namespace n on n.oid = c.relnamespace
    union select schema_name from ringfence.sealed_tables())
select current_database(), (select count(*) from seals),
       case when cardinality($1::text[]) > 0 then $1
            when exists (select from sealed) then array(select schema::text from sealed order by 1)
            else '{public}' end`

func (r *Report) describe(ctx context.Context, tx pgx.Tx) error {
	if err := problems(ctx, tx, namesSQL, []string{}, r.Schemas); err != nil {
		return err
	}
	if r.Schemas == nil {
		r.Schemas = []string{}
	}
	return tx.QueryRow(ctx, describeSQL, r.Schemas).Scan(&r.Database, &r.Sealed, &r.Schemas)
}

// kind is one kind of finding.
type kind struct {
	id  string
	why string
	// sql returns a row for each finding: its object, what it is, what to do. $1 are the schemas,
	// $2 is the guard's role.
	sql string
	// from is the first version of the server that has what sql reads, as in server_version_num.
	from int
}

func (k kind) find(
	ctx context.Context, tx pgx.Tx, schemas []string, guard string,
) ([]Finding, error) {
	rows, err := tx.Query(ctx, `select object, what, advice from (`+k.sql+`) found (object, what, advice)
	    where $1::text[] is not null and $2::text is not null order by object`, schemas, guard)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Finding, error) {
		f := Finding{ID: k.id, Why: k.why}
		err := row.Scan(&f.Object, &f.What, &f.Do)
		if command, is := strings.CutSuffix(f.Do, " "+f.Object); is &&
			strings.HasPrefix(command, "guard ") {
			f.Do = command + " " + refusal.Argument(f.Object) // a shell removes the quotes that SQL needs
		}
		return f, err
	})
}
