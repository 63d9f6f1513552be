package settings

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Text describes a setting. Any sequence of white space in it counts as one space.
type Text struct {
	Meaning string
	Default string // in words, if it is computed; "" for the default in the tag
}

// Texts maps the names of variables to their descriptions.
type Texts map[string]Text

// Described is a settings struct with a text for each setting.
type Described interface{ Texts() Texts }

// field is one setting: its tags, its text and its value.
type field struct {
	name        string // of the variable
	fallback    string // the default, in the form of the environment
	defaultText string // the default in words, if it is computed
	help        string
	required    bool
	use         string // "": always
	typ         reflect.Type
	value       reflect.Value
}

// fields lists the settings of the struct to which into points, in the order of declaration. A
// nested struct may be Described, too.
func fields(into any) []field {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("settings: want a pointer to a struct, not %T", into))
	}
	return walk(v.Elem(), "", "")
}

// groupFields lists the settings of a group under their whole names.
func groupFields(g Group) []field {
	all := fields(g.Into)
	for i := range all {
		all[i].name, all[i].use = g.Prefix+all[i].name, cmp.Or(all[i].use, g.Use)
	}
	return all
}

// usedFor reports whether the field is read for these uses.
func (f field) usedFor(uses []string) bool { return f.use == "" || slices.Contains(uses, f.use) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func walk(v reflect.Value, prefix, use string) []field {
	var found []field
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		if !sf.IsExported() {
			continue
		}
		tag, isSetting := sf.Tag.Lookup("env")
		switch {
		case isSetting:
			found = append(found, newField(sf, v.Field(i), prefix, tag))
			last := &found[len(found)-1]
			last.use = cmp.Or(last.use, use)
		case sf.Type.Kind() == reflect.Struct:
			found = append(found, walk(v.Field(i), prefix+sf.Tag.Get("envPrefix"),
				cmp.Or(sf.Tag.Get("use"), use))...)
		}
	}
	if d, ok := v.Addr().Interface().(Described); ok {
		texts := d.Texts()
		for i, f := range found {
			if text, known := texts[strings.TrimPrefix(f.name, prefix)]; known {
				found[i].help, found[i].defaultText = oneLine(text.Meaning), oneLine(text.Default)
			}
		}
	}
	return found
}

func newField(sf reflect.StructField, v reflect.Value, prefix, tag string) field {
	name, options, _ := strings.Cut(tag, ",")
	return field{
		name:     prefix + name,
		fallback: sf.Tag.Get("envDefault"),
		required: strings.Contains(options, "required") || strings.Contains(options, "notEmpty"),
		use:      sf.Tag.Get("use"),
		typ:      sf.Type,
		value:    v,
	}
}

// explain says what a value of the field has to look like. why is the parser's error.
func (f field) explain(why error) string {
	switch {
	case f.typ == reflect.TypeFor[time.Duration]():
		return "not a duration such as 500ms, 10s or 1m30s"
	case reflect.PointerTo(f.typ).Implements(reflect.TypeFor[textUnmarshaler]()):
		return why.Error()
	}
	switch f.typ.Kind() {
	case reflect.Bool:
		return "not true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "not a whole number in range"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "not a whole number from 0 up in range"
	}
	return why.Error()
}

// confidential reports whether a bad value must not appear in messages. A malformed URL may contain
// a password anywhere.
func (f field) confidential() bool {
	return f.typ.Implements(reflect.TypeFor[interface{ Reveal() string }]()) ||
		f.typ == reflect.TypeFor[URLs]()
}

type textUnmarshaler interface{ UnmarshalText([]byte) error }
