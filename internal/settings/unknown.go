package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// unknown finds variables that begin with prefix and are no setting: a misspelt setting that silently did nothing
// would be worse than a command that does not start.
func unknown(environ []string, prefix string, known []field) []error {
	var problems []error
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || isKnown(name, known) || isServiceLink(name, value) {
			continue
		}
		if near := nearest(name, prefix, known); near != "" {
			problems = append(problems, fmt.Errorf("%s is not a setting; did you mean %s?", name, near))
			continue
		}
		problems = append(problems, fmt.Errorf("%s is not a setting; -h lists them all", name))
	}
	return problems
}

func isKnown(name string, known []field) bool {
	return slices.ContainsFunc(known, func(f field) bool { return f.name == name })
}

var linkName = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

// isServiceLink tells a variable that Kubernetes sets in every container because there is a Service whose name begins
// like our prefix ("guard" makes GUARD_SERVICE_HOST, GUARD_PORT, GUARD_PORT_5432_TCP and more). Nobody chose those.
func isServiceLink(name, value string) bool {
	if linkName.MatchString(name) {
		return true
	}
	scheme, _, isURL := strings.Cut(value, "://")
	return isURL && strings.HasSuffix(name, "_PORT") && slices.Contains([]string{"tcp", "udp", "sctp"}, scheme)
}

// nearest is the setting that name is likely to be a misspelling of, or nothing.
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

// distance is how many letters have to be put in, taken out or changed to make b of a.
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
