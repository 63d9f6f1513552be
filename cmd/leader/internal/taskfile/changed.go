package taskfile

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/stepchange"
)

// stepsChanged adapts a checkpoint to other steps: see checkpoint.Task.
type stepsChanged = func(checkpoint.Checkpoint, []string) (checkpoint.Checkpoint, error)

// changed reads what to do with a saved task that has other steps.
func (r *reader) changed(n *yaml.Node, steps []Step) stepsChanged {
	if n == nil {
		return nil
	}
	if real(n).Kind == yaml.MappingNode {
		if m := r.mapping(n, "changed", "map"); m != nil {
			return r.renamed(r.need(m, "changed", "map"), steps)
		}
	}
	switch word := r.text(n, "changed"); word {
	case "refuse", "":
	case "accept":
		return stepchange.Accept
	case "restart":
		return stepchange.Restart
	default:
		r.at(n, "changed is %q, not refuse, accept, restart or map: {old: new}", excerpt(word))
	}
	return nil
}

// renamed reads a map from old step names to new ones.
func (r *reader) renamed(n *yaml.Node, steps []Step) stepsChanged {
	if n == nil {
		return nil
	}
	if real(n).Kind != yaml.MappingNode || len(real(n).Content) == 0 {
		r.at(n, "map is %s, not old: new", kind(n))
		return nil
	}
	names := map[string]string{}
	r.pairs(n, func(old string, k, v *yaml.Node) {
		name := r.text(v, "the new name of "+old)
		if name != "" && !slices.ContainsFunc(steps, func(s Step) bool { return s.Name == name }) {
			r.at(v, "no step is called %q", name)
		}
		names[old] = name
	})
	r.acyclic(n, names)
	return stepchange.Map(names)
}

// acyclic rejects renames that lead back to the old name, since a saved step's new name would be
// ambiguous.
func (r *reader) acyclic(n *yaml.Node, names map[string]string) {
	r.pairs(n, func(old string, k, _ *yaml.Node) {
		name := old
		for range names {
			var renamed bool
			if name, renamed = names[name]; !renamed {
				return
			}
			if name == old {
				r.at(k, "a cycle: %q is renamed until it is %q again", old, old)
				return
			}
		}
	})
}
