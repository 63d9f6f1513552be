package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// unknown finds variables that begin with prefix and are not settings. It is better not to start
// than to ignore a misspelt setting.
func unknown(environ []string, prefix string, known []field, removed map[string]string) []error {
	var problems []error
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || isKnown(name, known) || isServiceLink(name, value) {
			continue
		}
		if instead, was := removed[name]; was {
			problems = append(problems, fmt.Errorf("%s is not a setting any more: %s", name, instead))
			continue
		}
		if near := nearest(name, prefix, known); near != "" {
			problems = append(problems, fmt.Errorf("%s is not a setting; did you mean %s?", name, near))
			continue
		}
		problems = append(problems, fmt.Errorf("%s is not a setting; --help lists them all", name))
	}
	return problems
}

func isKnown(name string, known []field) bool {
	return slices.ContainsFunc(known, func(f field) bool { return f.name == name })
}

var linkName = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|` +
	`_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

// isServiceLink recognizes the variables that Kubernetes sets in every container for a Service
// whose name begins like our prefix: "guard" leads to GUARD_SERVICE_HOST, GUARD_PORT,
// GUARD_PORT_5432_TCP and more.
func isServiceLink(name, value string) bool {
	if linkName.MatchString(name) {
		return true
	}
	scheme, _, isURL := strings.Cut(value, "://")
	return isURL && strings.HasSuffix(name, "_PORT") &&
		slices.Contains([]string{"tcp", "udp", "sctp"}, scheme)
}

// nearest returns the setting of which name is probably a misspelling, or "".
func nearest(name, prefix string, known []field) string {
	name = strings.TrimPrefix(name, prefix)
	best, least := "", max(2, len(name)/3)+1
	for _, f := range known {
		if d := distance(name, strings.TrimPrefix(f.name, prefix)); d < least {
			best, least = f.name, d
		}
	}
	return best
}

// distance is the Levenshtein distance between a and b, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
