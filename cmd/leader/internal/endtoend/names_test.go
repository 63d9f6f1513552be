package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/leader/internal/agent"
)

// A resource, a holder, a task and a group that are as long as each may be.
func TestTheLongestNamesGoThroughEveryProgram(t *testing.T) {
	t.Parallel()
	onEveryCoordinator(t, theLongestNamesGoThroughEveryProgram)
}

func theLongestNamesGoThroughEveryProgram(t *testing.T, s *stack) {
	g := s.guard()
	resource, holder := strings.Repeat("r", 48), strings.Repeat("h", 200)
	group := strings.Repeat("g", 48-len("members_"))
	file := filepath.Join(t.TempDir(), "task.yaml")
	task := fmt.Sprintf("task: %s\nresource: %s\nsteps: [{name: %s, run: 'true'}]\n",
		strings.Repeat("t", 48), resource, strings.Repeat("s", 48))
	if err := os.WriteFile(file, []byte(task), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(g.pg, ":")
	insert := "insert into ledger (token, note) values (current_setting('fence." + resource +
		"')::bigint, 'run')"
	env := []string{"LEADER_HOLDER=" + holder,
		fmt.Sprintf("LEADER_STORES=postgres://app@%s/postgres,redis://%s", g.pg, g.redis)}
	worker := s.program("leader", "work", group)
	worker.Env = append(worker.Env, env...)
	s.run(worker)
	for range 2 { // the second term takes over from the first one
		for _, args := range [][]string{
			{"run", resource, "--", "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port,
				"-U", "app", "-d", "postgres", "-c", insert},
			{"task", file},
			{"submit", "--wait", "--resource", resource, group, "--", "true"},
			{"submit", "--wait", group, "--", "true"}, // with a numbered resource
		} {
			cmd := s.program("leader", args...)
			cmd.Env = append(append(cmd.Env, env...), "LEADER_JOURNAL=coordinator")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", args[0], err, out)
			}
		}
	}
	if n := s.column("select count(*)::text from ledger")[0]; n != "2" {
		t.Errorf("%s rows", n)
	}
	stream := s.standsFor(s.agent(g, "LEADER_CARRY=postgres").client, resource, holder)
	if err := s.writes(g, stream.until(agent.Leading)); err != nil {
		t.Error(err)
	}
}
