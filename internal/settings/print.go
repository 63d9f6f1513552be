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
// start. Secrets are masked.
func Given(into any, environ []string) []slog.Attr {
	given := environment(environ)
	return slices.DeleteFunc(Effective(into), func(a slog.Attr) bool { return given[a.Key] == "" })
}

// Effective returns every setting with its value. Secrets are masked.
func Effective(into any) []slog.Attr {
	var attrs []slog.Attr
	for _, f := range fields(into) {
		attrs = append(attrs, f.attr(""))
	}
	for _, g := range groups(into) {
		for _, f := range fields(g.Into) {
			attrs = append(attrs, f.attr(g.Prefix))
		}
	}
	return attrs
}

func (f field) attr(prefix string) slog.Attr {
	return slog.String(prefix+f.name, fmt.Sprint(f.value.Interface()))
}
