// Package pgoptions reads and writes the value of the startup parameter "options" of Postgres,
// which is PGOPTIONS in the environment: words between white space, in which a backslash quotes the
// next character.
//
//	words := pgoptions.Split(`-c work_mem=5MB -c application_name=a\ b`)
//	options := pgoptions.Join(words)
package pgoptions

import "strings"

// Split splits as pg_split_opts does (src/backend/utils/init/postinit.c).
func Split(s string) (words []string) {
	for at := 0; ; {
		for at < len(s) && isSpace(s[at]) {
			at++
		}
		if at == len(s) {
			return words
		}
		begin, quoted := at, false
		for ; at < len(s) && !isSpace(s[at]); at++ {
			if s[at] == '\\' {
				quoted = true
				at++
			}
		}
		at = min(at, len(s))
		word := s[begin:at]
		if quoted {
			word = unquote(word)
		}
		words = append(words, word)
	}
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// unquote removes each backslash that quotes the next character, and one at the end.
func unquote(s string) string {
	plain := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			if i++; i == len(s) {
				break
			}
		}
		plain = append(plain, s[i])
	}
	return string(plain)
}

// Join returns the options that Split splits into these words.
func Join(words []string) string {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		for j := range len(word) {
			if word[j] == '\\' || isSpace(word[j]) {
				b.WriteByte('\\')
			}
			b.WriteByte(word[j])
		}
	}
	return b.String()
}
