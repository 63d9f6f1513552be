package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// WithFile returns environ, as os.Environ returns it, with the settings of a file behind it. A
// variable that is set in environ stays as it is. Each line of the file is NAME=value, as in an
// EnvironmentFile of systemd; the value may be in quotes. A line that begins with # or ; is a
// comment. Every name has to begin with prefix. The error is Problems.
func WithFile(environ []string, file, prefix string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, Problems{fmt.Errorf("the file of settings: %w", err)}
	}
	given := environment(environ)
	all := append([]string(nil), environ...)
	var problems Problems
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, err := assignment(line, prefix)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s, line %d: %w", file, number, err))
			continue
		}
		if _, set := given[name]; !set {
			all = append(all, name+"="+value)
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return all, nil
}

// assignment reads NAME=value. Its error does not quote the value, which may be a secret. It
// accepts only what a shell and systemd read in the same way.
func assignment(line, prefix string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, "=")
	if !ok || strings.TrimSpace(name) != name {
		return "", "", errors.New("not of the form NAME=value")
	}
	if !strings.HasPrefix(name, prefix) {
		return "", "", fmt.Errorf("%s does not begin with %s", name, prefix)
	}
	value = strings.TrimSpace(value)
	for _, quote := range []string{"'", `"`} {
		if !strings.HasPrefix(value, quote) {
			continue
		}
		inner, closed := strings.CutSuffix(value[1:], quote)
		if !closed || strings.Contains(inner, quote) || quote == `"` && strings.Contains(inner, `\`) {
			return "", "", fmt.Errorf("%s: put the value between two single quotes, and none inside", name)
		}
		return name, inner, nil
	}
	if strings.ContainsAny(value, `'"\`) {
		return "", "", fmt.Errorf("%s: a value with quotes or backslashes has to be between two single "+
			"quotes", name)
	}
	return name, value, nil
}
