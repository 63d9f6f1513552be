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

// Group is a struct of settings whose names all begin with Prefix.
type Group struct {
	Prefix string
	Into   any    // a pointer to the struct
	Use    string // of those without a tag of their own
}

// Grouped is a settings struct one of whose settings names groups of further ones. Groups is called
// once the struct's own settings are read.
type Grouped interface{ Groups() []Group }

// Shrunk is a settings struct that once had further settings. Removed returns their names, and what
// to do without each.
type Shrunk interface{ Removed() map[string]string }

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
// that begins with prefix must be known. Those whose tag "use" names none of uses are not read:
// such a setting has its default, whatever environ says. The error is Problems: missing, unreadable
// and unknown variables, and those that Validate reports. It contains no secret and no URL.
func Load(into any, prefix string, environ []string, uses ...string) error {
	given := environment(environ)
	known := fields(into)
	problems := read(Group{Into: into}, known, given, uses)
	for _, g := range groups(into) {
		more := groupFields(g)
		for _, f := range more {
			if isKnown(f.name, known) {
				problems = append(problems, fmt.Errorf("%s would be two settings: choose another name for "+
					"what has the settings %s…", f.name, g.Prefix))
			}
		}
		problems = append(problems, read(g, more, given, uses)...)
		known = append(known, more...)
	}
	problems = append(problems, unknown(environ, prefix, known, removed(into))...)
	if v, ok := into.(Validator); ok {
		problems = append(problems, flatten(v.Validate())...)
	}
	if len(problems) == 0 {
		return nil
	}
	return problems
}

// read reads settings that are known, and returns what is wrong with them.
func read(g Group, known []field, given map[string]string, uses []string) (problems Problems) {
	for _, f := range known {
		if !f.usedFor(uses) {
			delete(given, f.name)
			continue
		}
		value, set := given[f.name]
		if f.required && !set {
			problems = append(problems, fmt.Errorf("%s is required: %s", f.name, f.help))
		}
		if !set {
			continue
		}
		if err := try(g, f, value); err != nil {
			problems = append(problems, err)
			delete(given, f.name)
		}
	}
	if err := parse(g, given); err != nil {
		problems = append(problems, err)
	}
	return problems
}

// environment returns environ as a map, without empty variables.
func environment(environ []string) map[string]string {
	m := env.ToMap(environ)
	maps.DeleteFunc(m, func(_, value string) bool { return value == "" })
	return m
}

// Lookup returns the value of a variable of an environment, and "" if it is not set. If it is set
// twice, the last value counts.
func Lookup(environ []string, name string) string { return env.ToMap(environ)[name] }

func groups(into any) []Group {
	if g, ok := into.(Grouped); ok {
		return g.Groups()
	}
	return nil
}

func removed(into any) map[string]string {
	if s, ok := into.(Shrunk); ok {
		return s.Removed()
	}
	return nil
}

// try reads one variable alone into a new struct, so that an error can name the variable.
func try(g Group, f field, value string) error {
	fresh := Group{Prefix: g.Prefix, Into: reflect.New(reflect.TypeOf(g.Into).Elem()).Interface()}
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
func parse(g Group, given map[string]string) error {
	err := env.ParseWithOptions(g.Into, env.Options{Environment: given, Prefix: g.Prefix})
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
	const max = 40
	if len(s) > max {
		return strconv.Quote(s[:max]) + "…"
	}
	return strconv.Quote(s)
}
