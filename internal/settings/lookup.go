package settings

import "strings"

// Lookup returns the value of a variable of an environment, and "" if it is not set. If it is set
// twice, the last value counts.
func Lookup(environ []string, name string) (value string) {
	for _, entry := range environ {
		if key, v, ok := strings.Cut(entry, "="); ok && key == name {
			value = v
		}
	}
	return value
}
