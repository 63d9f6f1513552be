package settings

import (
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
)

// Help prints name, default and meaning of every setting of the struct to which into points.
func Help(w io.Writer, into any) error {
	var b strings.Builder
	for _, f := range fields(into) {
		fmt.Fprintf(&b, "  %s (%s)\n", f.name, f.defaultLabel())
		for _, line := range Wrap(f.help, 100) {
			fmt.Fprintf(&b, "      %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f field) defaultLabel() string {
	switch {
	case f.required:
		return "required"
	case f.defaultText != "":
		return "default: " + f.defaultText
	case f.fallback != "":
		return "default: " + f.fallback
	}
	return "not set by default"
}

// Wrap breaks text at spaces into lines of at most width characters. A longer word keeps its line.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line == "" {
		return lines
	}
	return append(lines, line)
}

// Changed returns the names of the settings that differ between two structs of the same type, to
// which a and b point.
func Changed(a, b any) (names []string) {
	after := fields(b)
	for i, before := range fields(a) {
		if !reflect.DeepEqual(before.value.Interface(), after[i].value.Interface()) {
			names = append(names, before.name)
		}
	}
	return names
}

// Given returns the settings that an environment names, with their values, for the log at the
// start, if they are read for these uses. Secrets are masked.
func Given(into any, environ []string, uses ...string) []slog.Attr {
	given := environment(environ)
	return slices.DeleteFunc(Effective(into, uses...), func(a slog.Attr) bool {
		return given[a.Key] == ""
	})
}

// Effective returns every setting that is read for these uses, with its value. Secrets are masked.
func Effective(into any, uses ...string) []slog.Attr {
	all := fields(into)
	for _, g := range groups(into) {
		all = append(all, groupFields(g)...)
	}
	var attrs []slog.Attr
	for _, f := range all {
		if f.usedFor(uses) {
			attrs = append(attrs, slog.String(f.name, fmt.Sprint(f.value.Interface())))
		}
	}
	return attrs
}
