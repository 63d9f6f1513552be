package assigner

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs/internal/digits"
	"github.com/ringfence/ringfence/jobs/job"
)

// A job that names no resource gets one of the group's numbered resources when it is first
// assigned, and keeps it as long as it may run again: a worker of an earlier try is refused only by
// the mark of its own resource. A done job gives its number back, and the next job with that number
// raises the same mark. So a store has as many marks as jobs have run at once, and not one for each
// job.

// ahead is how many numbers are free at least when the numbers are listed.
const ahead = 16

// numbers are those that the assigner may give. Only it gives any, and each gift creates a
// document, so no two jobs have one number, whatever it believes.
type numbers struct {
	free []int
	last int // the one that was given last
}

// next returns a free number; 0 if there is none.
func (n *numbers) next() int {
	if len(n.free) == 0 {
		return 0
	}
	n.last, n.free = n.free[0], n.free[1:]
	return n.last
}

// list takes over a new list of the names of those that are taken, so that at least so many are
// free. The next ones after the last one come first: the others were given back later, and their
// workers may still have to resign.
func (n *numbers) list(names []string, least int) {
	taken, most := map[int]bool{}, len(names)+least
	for _, name := range names {
		if number, err := strconv.Atoi(name); err == nil {
			taken[number], most = true, max(most, number)
		}
	}
	n.free = n.free[:0]
	for i := range most {
		if number := 1 + (n.last+i)%most; !taken[number] {
			n.free = append(n.free, number)
		}
	}
}

// number sees to it that there are numbers for so many jobs.
func (a *assigner) number(jobs int) error {
	if len(a.numbers.free) >= jobs {
		return nil
	}
	names, err := a.q.Docs.Names(a.ctx, a.q.Paths.Resources())
	if err == nil {
		a.numbers.list(names, jobs+ahead)
	}
	return err
}

// withResource returns the status with a numbered resource if it has none. It is false if conflicts
// have used up the numbers that there were.
func (a *assigner) withResource(s job.Status) (job.Status, bool) {
	if s.Resource != "" {
		return s, true
	}
	if s.Number = a.numbers.next(); s.Number == 0 {
		return s, false
	}
	s.Resource = numbered(a.q.Group.Name(), a.claim.Issuer, s.Number)
	return s, true
}

const (
	groupInResource = 24 // characters
	tagLength       = 8  // 40 bits
)

// numbered returns a numbered resource of a group. Its name has a digest of the group and the
// issuer, so that the groups of two coordinators, or of one that was rebuilt, do not meet in a
// store.
func numbered(group string, issuer fence.Issuer, number int) fence.Resource {
	sum := sha256.Sum256([]byte(group + "\n" + string(issuer)))
	tag := digits.Text(sum[:])[:tagLength]
	return fence.Resource(fmt.Sprintf("job_%s_%s_%d", group[:min(len(group), groupInResource)], tag,
		number))
}
