package guard

import (
	"cmp"
	"errors"

	"github.com/ringfence/ringfence/fence"
)

// What became of an admission: the values of the label result.
const (
	admitted = "admitted"
	refused  = "refused"
)

// result is what became of an admission.
func result(err error) string {
	if err == nil {
		return admitted
	}
	return refused
}

// outcome is what became of an admission, and if it was refused, why, in one word.
func outcome(err error) string {
	if err == nil {
		return admitted
	}
	return reason(err)
}

// noReason is the reason of a refusal that is an unexpected error.
const noReason = "error"

// reason is why an admission was refused, in one word.
func reason(err error) string { return cmp.Or(string(refusalIn(err).Reason), noReason) }

// refusalIn returns the refusal in err, or an empty one.
func refusalIn(err error) *fence.Refusal {
	var r *fence.Refusal
	if errors.As(err, &r) {
		return r
	}
	return &fence.Refusal{}
}
