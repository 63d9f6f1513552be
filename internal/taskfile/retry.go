package taskfile

import (
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ringfence/ringfence/checkpoint"
)

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
		r.at(m.take("attempts"), "attempts is above 1000000")
		attempts = 1
	}
	first := r.durationOr(m.take("backoff"), "backoff", time.Second)
	most := r.durationOr(m.take("most"), "most", max(first, time.Minute))
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
