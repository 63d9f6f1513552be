package history

import "strings"

// JobOf returns the ID of the job to whose step a key belongs. Keys are those of a task:
// job/run/round/step.
func JobOf(key string) string {
	id, _, _ := strings.Cut(key, "/")
	return id
}
