package pgschema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/network/backoff"
)

// Version is the version of the schema that this program needs.
const Version = 1

// files has the SQL. It runs in the order of all, and then the grants of each role.
//
//go:embed sql/*.sql
var files embed.FS

var all = []string{
	"schema", "server", "hidden", "enter", "calls", "functions", "authorization", "attach",
	"checkpoint", "seal", "direct",
	"elections", "sql_elections", "contract", "raise_own", "replicas", "views", "grants", "stamp",
}

// Functions of the schema ringfence by who may call them, as literals of SQL. A guard may call all
// but those that hand out terms and those of an operator.
const (
	OfEverybody = `'{version, holds, backend_identity, own_start, run, enter, is_open, attach}'`
	OfLeaders   = `'{campaign, stand, take, take_term, bring, bring_term, leave, leave_term, look, raise_own, revoke_own,
    marks, signal, ended, tries, free, held, free_or_fail,
    resume, publish, enter_and_publish, enter_and_forget, checkpoints,
    open_lease, close_lease, beat, nominate, standing, leaders, candidates, acknowledge, withdraw, resign,
    takes_part, depose, change_documents, read_documents, list_documents, tell, renew_issuer}'`
	notOfGuards = `'{begin_term, stand, take_term, bring_term, allow, forbid, authorize, direct, end_others}'`
)

// Roles are who uses the schema, beside its owner.
type Roles struct {
	Guard   string   // a guard logs in as this role; empty without one
	Leaders []string // programs that may lead log in as these
}

// Check returns an error if a role has both kinds of rights.
func (r Roles) Check() error {
	if r.Guard != "" && slices.Contains(r.Leaders, r.Guard) {
		return fmt.Errorf("the role %q would be a guard's and a program's: a guard's rights record and "+
			"forget sessions, so with them a program could let a deposed leader write; give the guard a "+
			"role of its own", r.Guard)
	}
	return nil
}

// SQL returns the SQL that Install runs, as one transaction, for people who want to read it first
// and run it with psql.
func (r Roles) SQL() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sselect pg_advisory_xact_lock(%d);\n\n", Begin, Lock)
	add := func(name, role string) {
		// This is no text/template: a program with that in it keeps every method of every type, 10 MB
		// more.
		fill := strings.NewReplacer("{{role}}", pgx.Identifier{role}.Sanitize(), "{{role literal}}",
			Literal(role),
			"{{of everybody}}", OfEverybody, "{{of leaders}}", OfLeaders, "{{not of guards}}", notOfGuards,
			"{{version}}", strconv.Itoa(Version))
		b.WriteString(fill.Replace(file(name)) + "\n")
	}
	for _, name := range all {
		add(name, "")
	}
	if r.Guard != "" {
		add("guard", r.Guard)
	}
	for _, role := range r.Leaders {
		add("leader", role)
	}
	add("sight", r.Guard)
	b.WriteString("commit;\n")
	return b.String()
}

// Lock is the advisory lock that keeps two installations from running at once.
const Lock = 0x72696e67

func file(name string) string {
	text, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // the name is one of ours
	}
	return string(text)
}

// Literal returns a text as a literal of SQL.
func Literal(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
}

// ErrNewer is returned for a database whose schema is of a newer program.
var ErrNewer = errors.New("use the newer program")

// Installed returns the version of the schema, or 0 without one.
func Installed(ctx context.Context, conn *pgx.Conn) (version int, err error) {
	var there bool
	if err = conn.QueryRow(ctx,
		"select pg_catalog.to_regproc('ringfence.version') is not null").Scan(&there); err != nil ||
		!there {
		return 0, err
	}
	err = conn.QueryRow(ctx, "select coalesce(ringfence.version(), 0)").Scan(&version)
	return version, err
}

// Warned is the SQLSTATE of the warnings of an installation.
const Warned = "01RF0"

// Tries is how often an installation is begun. Sessions that lock tables of the schema in another
// order can make the server end it, and it changes nothing until it commits.
const Tries = 5

// Install creates the schemas, or replaces the functions of those that are there. It runs one
// transaction and may be repeated: it changes no mark, and elections go on. The role of conn must
// be able to create a schema in the database. An error means that nothing was changed.
func (r Roles) Install(ctx context.Context, conn *pgx.Conn) error {
	if err := r.Check(); err != nil {
		return err
	}
	version, err := Installed(ctx, conn)
	if err != nil {
		return err
	}
	if version > Version {
		return fmt.Errorf("the database has schema version %d, this program knows %d: %w", version,
			Version, ErrNewer)
	}
	text := r.SQL()
	for n := 1; ; n++ {
		_, err := conn.PgConn().Exec(ctx, text).ReadAll()
		if !Deadlocked(err) || n == Tries {
			return err
		}
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			return err
		}
		backoff.Pause(ctx, backoff.After(n, backoff.Min, time.Second))
	}
}

// Deadlocked reports whether the server has ended a transaction because of a deadlock.
func Deadlocked(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "40P01"
}
