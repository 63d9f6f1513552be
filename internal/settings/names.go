package settings

import (
	"errors"
	"fmt"
	"strings"
)

// Names are names of a database, such as roles, that are separated by commas. In double quotes a
// name may have any character, as in SQL: "a,b" and "a""b".
type Names []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Names) UnmarshalText(text []byte) (err error) {
	*n, err = ParseNames(string(text))
	return err
}

// ParseNames reads Names. An empty text has none.
func ParseNames(text string) (all []string, err error) {
	for rest, more := text, text != ""; more; {
		var name string
		if strings.HasPrefix(rest, `"`) {
			name, rest, more, err = quoted(rest[1:])
		} else if name, rest, more = strings.Cut(rest, ","); name == "" ||
			strings.TrimSpace(name) != name {
			err = fmt.Errorf("name %d is %q: separate the names by a comma and nothing else, "+
				"or put a name in double quotes", len(all)+1, name)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, name)
	}
	return all, nil
}

// quoted reads a name behind its first quote, and the comma behind its last one.
func quoted(text string) (name, rest string, more bool, err error) {
	for {
		part, after, closed := strings.Cut(text, `"`)
		name += part
		switch {
		case !closed:
			return "", "", false, errors.New("a name has no closing quote")
		case strings.HasPrefix(after, `"`):
			name, text = name+`"`, after[1:]
			continue
		case name == "":
			return "", "", false, errors.New("a name is empty")
		case after != "" && !strings.HasPrefix(after, ","):
			return "", "", false, fmt.Errorf("a comma must follow the name %q", name)
		}
		return name, strings.TrimPrefix(after, ","), after != "", nil
	}
}
