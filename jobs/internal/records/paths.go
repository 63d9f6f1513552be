package records

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs/internal/digits"
	"github.com/ringfence/ringfence/jobs/job"
)

// Paths says where a group's documents are. The package documentation lists them.
type Paths struct{ root string }

func PathsOf(group string) Paths { return Paths{"jobs/" + group} }

func (p Paths) specs() string         { return p.root + "/specs" }
func (p Paths) Statuses() string      { return p.root + "/statuses" }
func (p Paths) Waiting() string       { return p.root + "/waiting" }
func (p Paths) Cancellations() string { return p.root + "/cancel" }
func (p Paths) Workers() string       { return p.root + "/workers" }
func (p Paths) Finished() string      { return p.root + "/finished" }
func (p Paths) Draining() string      { return p.root + "/draining" }
func (p Paths) Resources() string     { return p.root + "/resources" }
func (p Paths) Peeks() string         { return p.root + "/peeks" }

func (p Paths) Assigned(worker fence.Token) string {
	return p.root + "/assigned/" + worker.String()
}

func (p Paths) offer(at string) string        { return p.root + "/offers/" + at }
func (p Paths) spec(id job.ID) string         { return p.specs() + "/" + string(id) }
func (p Paths) Status(id job.ID) string       { return p.Statuses() + "/" + string(id) }
func (p Paths) Cancellation(id job.ID) string { return p.Cancellations() + "/" + string(id) }
func (p Paths) resource(number int) string    { return p.Resources() + "/" + strconv.Itoa(number) }
func (p Paths) Worker(w fence.Token) string   { return p.Workers() + "/" + w.String() }

// Assignment is what tells a worker. Its name has the attempt, so that a job that comes back is not
// taken for one that is still there.
func (p Paths) Assignment(s job.Status) string {
	return fmt.Sprintf("%s/%s.%d", p.Assigned(s.Worker), s.ID, s.Attempt)
}

// ParseAssignment reads the name of an assignment.
func ParseAssignment(name string) (id job.ID, attempt int, ok bool) {
	text, number, _ := strings.Cut(name, ".")
	id, err := job.ParseID(text)
	attempt, wrong := strconv.Atoi(number)
	return id, attempt, err == nil && wrong == nil
}

// AssignedIn returns the jobs of assignments.
func AssignedIn(names []string) (ids []job.ID) {
	for _, name := range names {
		if id, _, ok := ParseAssignment(name); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// unique is the document of a unique key, which may have any characters.
func (p Paths) unique(key string) string {
	sum := sha256.Sum256([]byte(key))
	return p.root + "/unique/" + digits.Text(sum[:])
}

// Entry is where a waiting job stands. Names sort by priority, then by time. They have the attempt,
// so that a job that waits again within a millisecond is not taken for one that was just assigned,
// and, at the end, the job's size. A paused job has a time that never comes.
func (p Paths) Entry(s job.Status) string { return p.Waiting() + "/" + entryName(s) }

func entryName(s job.Status) string {
	due := max(0, s.Due.UnixMilli())
	if s.Paused {
		due = never
	}
	return fmt.Sprintf("%d.%014d.%d.%s.%d", job.MaxPriority-s.Priority, due, s.Attempt, s.ID, s.Bytes)
}

const never = 99_999_999_999_999 // ms: the year 5138

// ParseEntry reads the name of a waiting job. Any other name is no job of ours.
func ParseEntry(name string) (id job.ID, bytes int, due time.Time, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 5 {
		return "", 0, time.Time{}, false
	}
	id, due, ok = parseTimed(parts[1], parts[3])
	bytes, err := strconv.Atoi(parts[4])
	return id, bytes, due, ok && err == nil
}

// Expiry is where a finished job stands. Names sort by the time at which the status expires, and
// have the job's size and state, so that nobody reads the statuses to choose what is forgotten.
func (p Paths) Expiry(s job.Status) string {
	return fmt.Sprintf("%s/%014d.%d.%s.%s", p.Finished(), max(0, s.Expires.UnixMilli()), s.Kept, s.ID,
		s.State)
}

// Expiry is what the name of a finished job says.
type Expiry struct {
	ID      job.ID
	Bytes   int
	Expires time.Time
	State   job.State
}

// ParseExpiry reads the name of a finished job. Any other name is no job of ours.
func ParseExpiry(name string) (e Expiry, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 4 || !job.State(parts[3]).Finished() {
		return Expiry{}, false
	}
	e.ID, e.Expires, ok = parseTimed(parts[0], parts[2])
	e.State = job.State(parts[3])
	var err error
	e.Bytes, err = strconv.Atoi(parts[1])
	return e, ok && err == nil
}

func parseTimed(number, text string) (id job.ID, at time.Time, ok bool) {
	id, err := job.ParseID(text)
	ms, wrong := strconv.ParseInt(number, 10, 64)
	return id, time.UnixMilli(ms), err == nil && wrong == nil
}
