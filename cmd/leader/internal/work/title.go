package work

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/ringfence/ringfence/jobs/job"
)

// Titled returns a job of a kind of these with a title, if it has none.
func Titled(spec job.Spec) job.Spec {
	if k, ours := kinds[spec.Kind]; ours && spec.Title == "" {
		spec.Title = k.title(spec.Payload)
	}
	return spec
}

// title is a command as a shell reads it, as far as a title has room.
func title(argv []string) string {
	var words []string
	for _, word := range argv {
		if !plain.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	text := strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	if len(text) <= job.MaxTitle {
		return text
	}
	cut := job.MaxTitle - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Name is what people call a job: its command, its task, or its kind with its title.
func Name(s job.Status) string {
	switch {
	case s.Title == "":
		return s.Kind
	case s.Kind == CommandKind:
		return s.Title
	}
	return s.Kind + " " + s.Title
}
