package settings

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Text describes a setting to people. Any white space in it is one space.
type Text struct {
	Meaning string
	Default string // in words, where it is computed; "" for the one in the tag
}

// Texts describes settings, by the name of the variable.
type Texts map[string]Text

// Described is a settings struct with a text for each of its settings.
type Described interface{ Texts() Texts }

// field is one setting: its tags, its text, and where its value is.
type field struct {
	name        string // of the variable
	fallback    string // the default as the environment would spell it
	defaultText string // the default in words, where it is computed
	help        string
	required    bool
	secret      bool
	typ         reflect.Type
	value       reflect.Value
}

// fields lists the settings of into, a pointer to a struct, in the order of their declaration.
func fields(into any) []field {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("settings: want a pointer to a struct, not %T", into))
	}
	all := walk(v.Elem(), "")
	if d, ok := into.(Described); ok {
		texts := d.Texts()
		for i, f := range all {
			all[i].help, all[i].defaultText = oneLine(texts[f.name].Meaning), oneLine(texts[f.name].Default)
		}
	}
	return all
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func walk(v reflect.Value, prefix string) []field {
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
		case sf.Type.Kind() == reflect.Struct:
			found = append(found, walk(v.Field(i), prefix+sf.Tag.Get("envPrefix"))...)
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
		secret:   sf.Tag.Get("secret") != "",
		typ:      sf.Type,
		value:    v,
	}
}

// wants says what a value of the field has to look like, for somebody who got it wrong; why is the parser's opinion.
func (f field) wants(why error) string {
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

// hides tells whether a bad value must stay out of messages. A URL may have a password wherever it is wrong.
func (f field) hides() bool {
	return f.secret || f.typ == reflect.TypeFor[URL]() || f.typ == reflect.TypeFor[URLs]()
}

type textUnmarshaler interface{ UnmarshalText([]byte) error }
