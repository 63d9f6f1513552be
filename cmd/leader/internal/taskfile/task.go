package taskfile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/settings"
)

const whole = "a task file"

// task reads the whole file. The result is valid only if no problem was reported.
func (r *reader) task(n *yaml.Node) *File {
	m := r.mapping(n, whole,
		"task", "resource", "journal", "rounds", "every", "state", "retry", "changed", "steps")
	if m == nil {
		return nil
	}
	f := &File{
		Task: r.name(r.need(m, whole, "task")), Resource: r.resource(r.need(m, whole, "resource")),
	}
	f.Journal = r.journal(m.value("journal"))
	f.Rounds, f.Every = r.rounds(m.value("rounds")), r.duration(m.value("every"), "every")
	if f.Every > 0 && f.Rounds == 1 {
		r.at(m.value("every"),
			"every is the pause between rounds, and there is only one round: set rounds, or remove every")
	}
	f.State = r.state(m.value("state"))
	if retry := r.retry(m.value("retry")); retry != nil {
		f.Retry = *retry
	}
	f.Steps = r.steps(r.need(m, whole, "steps"))
	f.Changed = r.changed(m.value("changed"), f.Steps)
	return f
}

var variable = regexp.MustCompile(`\$\{([^}]*)\}`)

// name replaces environment variables in the task's name.
func (r *reader) name(n *yaml.Node) checkpoint.Name {
	text := r.text(n, "task")
	if text == "" {
		return ""
	}
	missing := false
	text = variable.ReplaceAllStringFunc(text, func(reference string) string {
		name := reference[2 : len(reference)-1]
		value, _ := r.lookup(name)
		if value == "" {
			r.at(n, "task: the environment has no %s, or it is empty", reference)
			missing = true
		}
		return value
	})
	if missing {
		return ""
	}
	name, err := checkpoint.ParseName(text)
	if err != nil {
		r.at(n, "task: %v", err)
	}
	return name
}

func (r *reader) resource(n *yaml.Node) fence.Resource {
	text := r.text(n, "resource")
	if text == "" {
		return ""
	}
	resource, err := fence.ParseResource(text)
	if err != nil {
		r.at(n, "resource: %v", err)
	}
	return resource
}

// journal reads a journal without secrets. Its problems do not quote the text, which may contain
// one.
func (r *reader) journal(n *yaml.Node) (j Journal) {
	text := r.text(n, "journal")
	if text == "" {
		return j
	}
	if err := j.UnmarshalText([]byte(text)); err != nil {
		r.at(n, "journal is %v", err)
		return Journal{}
	}
	if j.String() != j.Reveal() {
		r.at(n, "journal contains a secret, which does not belong in a file: set LEADER_JOURNAL in the "+
			"environment instead")
		return Journal{}
	}
	return j
}

func (r *reader) rounds(n *yaml.Node) int64 {
	switch {
	case n == nil:
		return 1
	case real(n).Value == "forever":
		return checkpoint.Forever
	}
	return r.count(n, "rounds", ", nor forever")
}

func (r *reader) state(n *yaml.Node) json.RawMessage {
	if n == nil {
		return json.RawMessage("{}")
	}
	if real(n).Kind != yaml.MappingNode {
		r.at(n, "state is %s: it has to be keys with values, a JSON object", kind(n))
		return nil
	}
	text, err := json.Marshal(r.value(n))
	if err != nil {
		r.at(n, "state cannot be written as JSON: %v", err)
	}
	return text
}

// steps reads the list. A repeated name is reported at the second step.
func (r *reader) steps(n *yaml.Node) []Step {
	if n == nil {
		return nil
	}
	if real(n).Kind != yaml.SequenceNode || len(real(n).Content) == 0 {
		r.at(n, "steps is %s: it has to be a list of at least one step", emptyOr(n))
		return nil
	}
	var all []Step
	for _, item := range real(n).Content {
		s := r.step(item)
		i := slices.IndexFunc(all, func(o Step) bool { return o.Name == s.Name })
		if i >= 0 && s.Name != "" {
			r.at(item, "the step in line %d has the same name, %q", all[i].At.Line, s.Name)
		}
		all = append(all, s)
	}
	return all
}

func emptyOr(n *yaml.Node) string {
	if real(n).Kind == yaml.SequenceNode {
		return "empty"
	}
	return kind(n)
}

// retry reads a retry policy; nil if n is nil.
func (r *reader) retry(n *yaml.Node) *checkpoint.Retry {
	if n == nil {
		return nil
	}
	m := r.mapping(n, "retry", "attempts", "backoff", "most")
	if m == nil {
		return nil
	}
	attempts := r.count(r.need(m, "retry", "attempts"), "attempts", "")
	if attempts > 1_000_000 {
		r.at(m.value("attempts"), "attempts is above 1000000")
		attempts = 1
	}
	first := r.durationOr(m.value("backoff"), "backoff", time.Second)
	most := r.durationOr(m.value("most"), "most", max(first, time.Minute))
	if first > most {
		r.at(n, "backoff %s is longer than most %s", first, most)
	}
	return &checkpoint.Retry{Attempts: int(attempts), Backoff: checkpoint.Exponential(first, most)}
}

func (r *reader) durationOr(n *yaml.Node, what string, otherwise time.Duration) time.Duration {
	if n == nil {
		return otherwise
	}
	return max(r.duration(n, what), 1) // not 0, which would lead to further problems
}

// Journal is where checkpoints are kept: the URL of a store, or InCoordinator. Its Scheme is that
// of the URL, or the word.
type Journal struct{ settings.URL }

// InCoordinator keeps checkpoints next to the elections.
const InCoordinator = "coordinator"

// UnmarshalText accepts scheme://rest and InCoordinator. Its error does not quote the text.
func (j *Journal) UnmarshalText(text []byte) error {
	if strings.TrimSpace(string(text)) == InCoordinator {
		j.URL = InCoordinator
		return nil
	}
	if err := j.URL.UnmarshalText(text); err != nil {
		return fmt.Errorf("neither the word %s nor a URL: %w", InCoordinator, err)
	}
	return nil
}
