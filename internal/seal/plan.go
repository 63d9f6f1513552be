package seal

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Plan is what Protect or Unprotect would do.
type Plan struct {
	Tables []string // in the order in which they are changed

	statements []string
}

// SQL returns the plan as one transaction, for people who want to read it first and run it with
// psql.
func (p *Plan) SQL() string {
	var b strings.Builder
	b.WriteString("begin;\nset local search_path = pg_catalog, pg_temp;\n" +
		"set local client_min_messages = warning;\nset local lock_timeout = '10s';\n")
	for _, s := range p.statements {
		b.WriteString(s + ";\n")
	}
	b.WriteString("commit;\n")
	return b.String()
}

// Run runs the plan. An error means that nothing was changed.
func (p *Plan) Run(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.PgConn().Exec(ctx, p.SQL()).ReadAll(); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return nil
}

func (p *Plan) add(format string, args ...any) {
	p.statements = append(p.statements, fmt.Sprintf(format, args...))
}

// literal quotes a name so that it means the same under any standard_conforming_strings.
func literal(s string) string {
	quoted := "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
	if strings.Contains(s, `\`) {
		return "E" + quoted
	}
	return quoted
}
