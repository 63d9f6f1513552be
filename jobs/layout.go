package jobs

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// layout is where a group's documents are. The package documentation lists them.
type layout struct{ root string }

func layoutOf(group string) layout { return layout{"jobs/" + group} }

func (l layout) specs() string     { return l.root + "/specs" }
func (l layout) statuses() string  { return l.root + "/statuses" }
func (l layout) waiting() string   { return l.root + "/waiting" }
func (l layout) cancel() string    { return l.root + "/cancel" }
func (l layout) workers() string   { return l.root + "/workers" }
func (l layout) finished() string  { return l.root + "/finished" }
func (l layout) draining() string  { return l.root + "/draining" }
func (l layout) resources() string { return l.root + "/resources" }

func (l layout) assigned(worker fence.Token) string {
	return l.root + "/assigned/" + worker.String()
}

func (l layout) offer(at string) string      { return l.root + "/offers/" + at }
func (l layout) spec(id ID) string           { return l.specs() + "/" + string(id) }
func (l layout) status(id ID) string         { return l.statuses() + "/" + string(id) }
func (l layout) cancelOf(id ID) string       { return l.cancel() + "/" + string(id) }
func (l layout) resource(number int) string  { return l.resources() + "/" + strconv.Itoa(number) }
func (l layout) worker(w fence.Token) string { return l.workers() + "/" + w.String() }

// assignment is what tells a worker. Its name has the attempt, so that a job that comes back is not
// taken for one that is still there.
func (l layout) assignment(s Status) string {
	return fmt.Sprintf("%s/%s.%d", l.assigned(s.Worker), s.ID, s.Attempt)
}

// parseAssignment reads the name of an assignment.
func parseAssignment(name string) (id ID, attempt int, ok bool) {
	text, number, _ := strings.Cut(name, ".")
	id, err := ParseID(text)
	attempt, wrong := strconv.Atoi(number)
	return id, attempt, err == nil && wrong == nil
}

// unique is the document of a unique key, which may have any characters.
func (l layout) unique(key string) string {
	sum := sha256.Sum256([]byte(key))
	return l.root + "/unique/" + digits.EncodeToString(sum[:])
}

// entry is where a waiting job stands. Names sort by priority, then by time. They have the attempt, so
// that a job that waits again within a millisecond is not taken for one that was just assigned, and, at
// the end, the job's size.
func (l layout) entry(s Status) string { return l.waiting() + "/" + entryName(s) }

func entryName(s Status) string {
	return fmt.Sprintf("%d.%014d.%d.%s.%d",
		PriorityMost-s.Priority, max(0, s.Due.UnixMilli()), s.Attempt, s.ID, s.Bytes)
}

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

// expiry is where a finished job stands. Names sort by the time at which the status expires, and have
// the job's size, so that nobody reads the statuses to add the sizes up.
func (l layout) expiry(s Status) string {
	return fmt.Sprintf("%s/%014d.%d.%s", l.finished(), max(0, s.Expires.UnixMilli()), s.Kept, s.ID)
}

// parseExpiry reads the name of a finished job.
func parseExpiry(name string) (id ID, bytes int, expires time.Time, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 {
		return "", 0, time.Time{}, false
	}
	id, expires, ok = parseTimed(parts[0], parts[2])
	bytes, err := strconv.Atoi(parts[1])
	return id, bytes, expires, ok && err == nil
}

func parseTimed(number, text string) (id ID, at time.Time, ok bool) {
	id, err := ParseID(text)
	ms, wrong := strconv.ParseInt(number, 10, 64)
	return id, time.UnixMilli(ms), err == nil && wrong == nil
}
