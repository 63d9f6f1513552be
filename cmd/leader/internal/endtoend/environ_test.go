package endtoend

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// pooled is a stack whose coordinator is behind a PgBouncer that takes no options, as another
// database of the command is.
type pooled struct {
	*stack
	g      *guard
	pooler *servers.PgBouncer
}

func newPooled(t *testing.T) *pooled {
	s := newStackWith(t, "")
	p := &pooled{s, s.guard(), serverstest.PgBouncer(t, s.pg, servers.PgBouncerOptions{
		User: "elections", RefuseOptions: true,
	})}
	s.coordinator = p.pooler.URL("elections", "postgres") + "&listen=off"
	return p
}

// run runs `leader run orders` with a shell's command.
func (p *pooled) run(command string, env ...string) (string, error) {
	cmd := p.program("leader", "run", "orders", "--", "sh", "-euc", command)
	cmd.Env = append(cmd.Env, "PGUSER=app", "PGDATABASE=postgres", "LEADER_STORES=postgres://app@"+
		p.g.pg+"/postgres",
		"GUARDED=postgres://app@"+p.g.pg+"/postgres", "POOLED="+p.pooler.URL("app", "postgres"), "PATH="+
			programs+":"+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const (
	writes = `psql -XAtq %s -c "insert into ledger (token, note) values (current_setting('fence.orders')::bigint, 'run')"; `
	reads  = `psql -XAtq "$POOLED" -c "select 'pooled'"; pg_dump -s -t no_such "$POOLED" 2>&1 | grep -c options || true; `
)

// PGOPTIONS reaches every database of the command. DATABASE_URL and a carrier reach the guarded
// one.
func TestACommandHasAnotherDatabaseBehindAPooler(t *testing.T) {
	t.Parallel()
	p := newPooled(t)
	for setting, command := range map[string]string{
		"LEADER_EXPORT=DATABASE_URL": fmt.Sprintf(writes, `"$DATABASE_URL"`) + reads,
		"LEADER_CARRY=postgres":      fmt.Sprintf(writes, "") + reads,
	} {
		out, err := p.run(command+`env | grep -c fence || true`, setting)
		if err != nil || !strings.Contains(out, "pooled\n0\n") {
			t.Errorf("%s: %v: %s", setting, err, out)
		}
		if claims := strings.Contains(out, "pooled\n0\n1\n"); claims != strings.HasSuffix(setting,
			"DATABASE_URL") {
			t.Errorf("%s: %s", setting, out)
		}
	}
	if n := p.column(
		"select count(*)::text from ledger where token is not null and note = 'run'",
	); n[0] != "2" {
		t.Errorf("%s rows were written", n)
	}
	out, err := p.run(`psql -X "$POOLED" -c "select 'pooled'"`)
	if err == nil || !strings.Contains(out, "options") {
		t.Errorf("this pooler takes options: %v, %s", err, out)
	}
}

// Connections of our own are not the command's, although they have its environment.
func TestOurProgramsRunInsideOfACommand(t *testing.T) {
	t.Parallel()
	p := newPooled(t)
	out, err := p.run(`leader status orders; ` +
		fmt.Sprintf(writes, `"$GUARDED"`) +
		`leader run billing -- sh -euc 'leader status billing; psql -XAtq "$GUARDED" -c "show fence.orders" -c "show fence.billing"'; ` +
		`leader run stock -- leader status stock; GUARD_COORDINATOR= guard install`)
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
