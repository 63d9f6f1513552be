package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Validator is a settings struct with further rules, such as rules across settings. Validate
// returns every problem, joined. It sees the default of a variable that could not be read, so it
// does not report the same mistake again.
type Validator interface{ Validate() error }

// Problems are all reasons why a command cannot start with its settings.
type Problems []error

// Error lists them, one per line.
func (p Problems) Error() string {
	var b strings.Builder
	b.WriteString("1 problem with the settings:")
	if len(p) > 1 {
		b.Reset()
		fmt.Fprintf(&b, "%d problems with the settings:", len(p))
	}
	for _, err := range p {
		fmt.Fprintf(&b, "\n  - %s", err)
	}
	return b.String()
}

// Unwrap returns them for errors.Is and errors.As.
func (p Problems) Unwrap() []error { return p }

// Load reads environ (as os.Environ returns it) into a struct, to which into points. Every variable
// that begins with prefix must be known. The error is Problems: missing, unreadable and unknown
// variables, and those that Validate reports. It contains no secret and no URL.
func Load(into any, prefix string, environ []string) error {
	given := environment(environ)
	known := fields(into)
	var problems Problems
	for _, f := range known {
		value, set := given[f.name]
		if f.required && !set {
			problems = append(problems, fmt.Errorf("%s is required: %s", f.name, f.help))
		}
		if !set {
			continue
		}
		if err := try(into, f, value); err != nil {
			problems = append(problems, err)
			delete(given, f.name)
		}
	}
	problems = append(problems, unknown(environ, prefix, known)...)
	if err := parse(into, given); err != nil {
		problems = append(problems, err)
	}
	if v, ok := into.(Validator); ok {
		problems = append(problems, flatten(v.Validate())...)
	}
	if len(problems) == 0 {
		return nil
	}
	return problems
}

// environment returns environ as a map, without empty variables.
func environment(environ []string) map[string]string {
	m := env.ToMap(environ)
	maps.DeleteFunc(m, func(_, value string) bool { return value == "" })
	return m
}

// try reads one variable alone into a new struct, so that an error can name the variable.
func try(into any, f field, value string) error {
	fresh := reflect.New(reflect.TypeOf(into).Elem()).Interface()
	err := parse(fresh, map[string]string{f.name: value})
	if err == nil {
		return nil
	}
	if f.confidential() {
		return fmt.Errorf("%s: %s", f.name, f.explain(innermost(err)))
	}
	return fmt.Errorf("%s=%s: %s", f.name, excerpt(value), f.explain(innermost(err)))
}

// parse drops errors about missing variables, which Load reports itself.
func parse(into any, given map[string]string) error {
	err := env.ParseWithOptions(into, env.Options{Environment: given})
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return err
	}
	rest := slices.DeleteFunc(all.Errors, func(err error) bool {
		_, unset := errors.AsType[env.VarIsNotSetError](err)
		_, empty := errors.AsType[env.EmptyVarError](err)
		return unset || empty
	})
	return errors.Join(rest...)
}

// innermost returns the parser's error without the library's text, which names struct fields.
func innermost(err error) error {
	if p, ok := errors.AsType[env.ParseError](err); ok {
		return p.Err
	}
	return err
}

func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

func excerpt(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
