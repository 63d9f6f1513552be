package work

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
	"github.com/ringfence/ringfence/jobs/job"
)

func TestAJobIsNamedAfterWhatItRuns(t *testing.T) {
	payload := func(v any) json.RawMessage {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	command := func(argv ...string) job.Spec {
		return job.Spec{Kind: CommandKind, Payload: payload(Command{Argv: argv})}
	}
	task := taskfile.Bundle{
		Path: "t.yaml", Text: "task: settle-${DAY}\nresource: r\nsteps: [{name: one, run: x}]\n",
		Env: map[string]string{"DAY": "2026-11-23"},
	}
	for _, c := range []struct {
		spec job.Spec
		want string
	}{
		{command("./settle.sh", "2026-11-23"), "./settle.sh 2026-11-23"},
		{command("sh", "-c", "echo it's\n\ttwo"), `sh -c 'echo it'\''s two'`},
		{job.Spec{Kind: TaskKind, Payload: payload(task)}, "task settle-2026-11-23"},
		{job.Spec{Kind: TaskKind, Payload: payload("no task")}, "task"},
		{job.Spec{Kind: CommandKind}, "command"},
		{job.Spec{Kind: "settle"}, "settle"},
		{job.Spec{Kind: "settle", Title: "merchant 17"}, "settle merchant 17"},
		{job.Spec{
			Kind: CommandKind, Title: "the nightly run", Payload: command("x").Payload,
		}, "the nightly run"},
	} {
		spec := Titled(c.spec)
		if got := Name(job.Status{Kind: spec.Kind, Title: spec.Title}); got != c.want {
			t.Errorf("%s %s is named %q, want %q", c.spec.Kind, c.spec.Payload, got, c.want)
		}
	}
	long := Titled(command(strings.Repeat("ü", 300)))
	if err := long.Check(); err != nil || !strings.HasSuffix(long.Title, "ü…") {
		t.Errorf("%q: %v", long.Title, err)
	}
}
