package seal

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Unprotect plans to take the seals off tables, with all their partitions and children. A name may
// also be of a table that is recorded as sealed and no longer exists.
func Unprotect(ctx context.Context, c *pgx.Conn, r Request) (*Plan, error) {
	p := &Plan{}
	err := looking(ctx, c, func(tx pgx.Tx) error {
		if err := installed(ctx, tx); err != nil {
			return err
		}
		all, err := family(ctx, tx, r)
		if err != nil {
			return err
		}
		for _, t := range all {
			p.unseal(t)
		}
		return nil
	})
	if err == nil && len(p.Tables) == 0 {
		err = errors.New("there is no such table")
	}
	return p, err
}

func (p *Plan) unseal(t table) {
	p.Tables = append(p.Tables, t.String())
	if !t.Lost {
		p.add("drop trigger if exists ringfence_seal on %s", t)
	}
	p.add("delete from ringfence.sealed where (schema_name, table_name) = (%s, %s)",
		literal(t.Schema), literal(t.Name))
}
