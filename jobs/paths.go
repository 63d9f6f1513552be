package jobs

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// paths says where a group's documents are. The package documentation lists them.
type paths struct{ root string }

func pathsOf(group string) paths { return paths{"jobs/" + group} }

func (p paths) specs() string         { return p.root + "/specs" }
func (p paths) statuses() string      { return p.root + "/statuses" }
func (p paths) waiting() string       { return p.root + "/waiting" }
func (p paths) cancellations() string { return p.root + "/cancel" }
func (p paths) workers() string       { return p.root + "/workers" }
func (p paths) finished() string      { return p.root + "/finished" }
func (p paths) draining() string      { return p.root + "/draining" }
func (p paths) resources() string     { return p.root + "/resources" }
func (p paths) peeks() string         { return p.root + "/peeks" }

func (p paths) assigned(worker fence.Token) string {
	return p.root + "/assigned/" + worker.String()
}

func (p paths) offer(at string) string      { return p.root + "/offers/" + at }
func (p paths) spec(id ID) string           { return p.specs() + "/" + string(id) }
func (p paths) status(id ID) string         { return p.statuses() + "/" + string(id) }
func (p paths) cancellation(id ID) string   { return p.cancellations() + "/" + string(id) }
func (p paths) resource(number int) string  { return p.resources() + "/" + strconv.Itoa(number) }
func (p paths) worker(w fence.Token) string { return p.workers() + "/" + w.String() }

// assignment is what tells a worker. Its name has the attempt, so that a job that comes back is not
// taken for one that is still there.
func (p paths) assignment(s Status) string {
	return fmt.Sprintf("%s/%s.%d", p.assigned(s.Worker), s.ID, s.Attempt)
}

// parseAssignment reads the name of an assignment.
func parseAssignment(name string) (id ID, attempt int, ok bool) {
	text, number, _ := strings.Cut(name, ".")
	id, err := ParseID(text)
	attempt, wrong := strconv.Atoi(number)
	return id, attempt, err == nil && wrong == nil
}

// assignedIn returns the jobs of assignments.
func assignedIn(names []string) (ids []ID) {
	for _, name := range names {
		if id, _, ok := parseAssignment(name); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// unique is the document of a unique key, which may have any characters.
func (p paths) unique(key string) string {
	sum := sha256.Sum256([]byte(key))
	return p.root + "/unique/" + digits.EncodeToString(sum[:])
}

// entry is where a waiting job stands. Names sort by priority, then by time. They have the attempt,
// so that a job that waits again within a millisecond is not taken for one that was just assigned,
// and, at the end, the job's size. A paused job has a time that never comes.
func (p paths) entry(s Status) string { return p.waiting() + "/" + entryName(s) }

func entryName(s Status) string {
	due := max(0, s.Due.UnixMilli())
	if s.Paused {
		due = never
	}
	return fmt.Sprintf("%d.%014d.%d.%s.%d", MaxPriority-s.Priority, due, s.Attempt, s.ID, s.Bytes)
}

const never = 99_999_999_999_999 // ms: the year 5138

// parseEntry reads the name of a waiting job. Any other name is no job of ours.
func parseEntry(name string) (id ID, bytes int, due time.Time, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 5 {
		return "", 0, time.Time{}, false
	}
	id, due, ok = parseTimed(parts[1], parts[3])
	bytes, err := strconv.Atoi(parts[4])
	return id, bytes, due, ok && err == nil
}

// expiry is where a finished job stands. Names sort by the time at which the status expires, and
// have the job's size and state, so that nobody reads the statuses to choose what is forgotten.
func (p paths) expiry(s Status) string {
	return fmt.Sprintf("%s/%014d.%d.%s.%s", p.finished(), max(0, s.Expires.UnixMilli()), s.Kept, s.ID,
		s.State)
}

// expiry is what the name of a finished job says.
type expiry struct {
	id      ID
	bytes   int
	expires time.Time
	state   State
}

// parseExpiry reads the name of a finished job. Any other name is no job of ours.
func parseExpiry(name string) (e expiry, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 4 || !State(parts[3]).Finished() {
		return expiry{}, false
	}
	e.id, e.expires, ok = parseTimed(parts[0], parts[2])
	e.state = State(parts[3])
	var err error
	e.bytes, err = strconv.Atoi(parts[1])
	return e, ok && err == nil
}

func parseTimed(number, text string) (id ID, at time.Time, ok bool) {
	id, err := ParseID(text)
	ms, wrong := strconv.ParseInt(number, 10, 64)
	return id, time.UnixMilli(ms), err == nil && wrong == nil
}
