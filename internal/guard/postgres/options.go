package postgres

import "strings"

// setting is one name=value of a command line.
type setting struct{ name, value string }

// parseOptions returns the settings in the value of the startup parameter "options". It parses as
// the server does: pg_split_opts splits words at white space, and a backslash quotes the next
// character; then getopt reads the server's switches (process_postgres_switches in
// src/backend/tcop/postgres.c). It fails on anything else, because an overlooked setting could be a
// claim, and the session would not be fenced for that resource.
func parseOptions(options string) ([]setting, error) {
	words := splitOptions(options)
	var found []setting
	for i := 0; i < len(words); i++ {
		word := words[i]
		if len(word) < 2 || word[0] != '-' {
			return nil, violation("options: %.60q is not a switch", word)
		}
		if word == "--" {
			return nil, violation("options: a bare -- is not a switch")
		}
		for at := 1; at < len(word); at++ {
			letter := word[at]
			if strings.IndexByte(switchesAlone, letter) >= 0 {
				continue
			}
			if strings.IndexByte(switchesWithValue, letter) < 0 {
				return nil, violation("options: unknown switch -%c", letter)
			}
			value := word[at+1:]
			if value == "" {
				i++
				if i == len(words) {
					return nil, violation("options: switch -%c needs a value", letter)
				}
				value = words[i]
			}
			if letter == 'c' || letter == '-' {
				name, val, ok := strings.Cut(value, "=")
				if !ok {
					return nil, violation("options: %.60q needs a value", value)
				}
				found = append(found, setting{name, val})
			}
			break
		}
	}
	return found, nil
}

// The server's getopt string, split into switches without a value, and switches whose value is the
// rest of the word or the next word. The latter include '-', for --name=value.
const (
	switchesAlone     = "bEeFijlnOPsT"
	switchesWithValue = "BcCDdfhkNprStvW-"
)

// splitOptions splits as pg_split_opts does (src/backend/utils/init/postinit.c).
func splitOptions(s string) []string {
	var words []string
	for {
		s = strings.TrimLeft(s, " \t\n\v\f\r")
		if s == "" {
			return words
		}
		var word strings.Builder
		i := 0
		for ; i < len(s) && !strings.ContainsRune(" \t\n\v\f\r", rune(s[i])); i++ {
			if s[i] == '\\' {
				i++
				if i == len(s) {
					break
				}
			}
			word.WriteByte(s[i])
		}
		words = append(words, word.String())
		s = s[i:]
	}
}
