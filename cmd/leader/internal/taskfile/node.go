package taskfile

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// mapping is a YAML mapping with known keys.
type mapping struct {
	at     *yaml.Node
	values map[string]*yaml.Node
}

// mapping reads a mapping. It reports unknown and repeated keys, and returns nil if n is not a
// mapping.
func (r *reader) mapping(n *yaml.Node, what string, known ...string) *mapping {
	m := &mapping{at: n, values: map[string]*yaml.Node{}}
	if real(n).Kind != yaml.MappingNode {
		r.at(n, "%s is %s, not keys with values", what, kind(n))
		return nil
	}
	r.pairs(n, func(key string, k, v *yaml.Node) {
		if !slices.Contains(known, key) {
			r.at(k, "unknown key %q: %s has %s", key, what, strings.Join(known, ", "))
			return
		}
		m.values[key] = v
	})
	return m
}

// pairs calls each for every pair. It reports and skips keys that are not text or are repeated.
func (r *reader) pairs(n *yaml.Node, each func(key string, k, v *yaml.Node)) {
	content, lines := real(n).Content, map[string]int{}
	for i := 0; i+1 < len(content); i += 2 {
		k, v := content[i], content[i+1]
		key := real(k).Value
		first, repeated := lines[key]
		switch {
		case real(k).Kind != yaml.ScalarNode:
			r.at(k, "a key is %s, not a word", kind(k))
		case real(k).ShortTag() == "!!merge":
			r.at(k, "<< is not supported: write the keys out")
		case repeated:
			r.at(k, "the key %q is already in line %d", key, first)
		default:
			lines[key] = k.Line
			each(key, k, v)
		}
	}
}

// value returns the value of a key, or nil if it is missing.
func (m *mapping) value(key string) *yaml.Node { return m.values[key] }

// need is value for a required key.
func (r *reader) need(m *mapping, what, key string) *yaml.Node {
	v := m.value(key)
	if v == nil {
		r.at(m.at, "%s has no %s", what, key)
	}
	return v
}

// text returns a scalar as it is written. It returns "" after a problem, or if n is nil.
func (r *reader) text(n *yaml.Node, what string) string {
	if n == nil {
		return ""
	}
	if isNull(n) || real(n).Kind != yaml.ScalarNode || strings.TrimSpace(real(n).Value) == "" {
		r.at(n, "%s is %s, not text", what, kind(n))
		return ""
	}
	return real(n).Value
}

// duration returns a duration above 0. It returns 0 after a problem, or if n is nil.
func (r *reader) duration(n *yaml.Node, what string) time.Duration {
	text := r.text(n, what)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.at(n, "%s is %q, not a duration above 0 such as 500ms, 10s or 1m30s", what, text)
		return 0
	}
	return d
}

// count returns a whole number of at least 1. It returns 0 after a problem, or if n is nil.
func (r *reader) count(n *yaml.Node, what, instead string) int64 {
	text := r.text(n, what)
	if text == "" {
		return 0
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil || i < 1 {
		r.at(n, "%s is %q, not a whole number from 1 up%s", what, text, instead)
		return 0
	}
	return i
}

func isNull(n *yaml.Node) bool {
	return real(n).Kind == yaml.ScalarNode && real(n).ShortTag() == "!!null"
}

// kind describes a node for a message that expected another kind.
func kind(n *yaml.Node) string {
	n = real(n)
	switch {
	case isNull(n), n.Kind == yaml.ScalarNode && strings.TrimSpace(n.Value) == "":
		return "empty"
	case n.Kind == yaml.MappingNode:
		return "keys with values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(excerpt(n.Value))
}

func excerpt(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

// number matches JSON's form of a number. Such a number keeps all its digits.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// value converts a node of a finite tree to a value of encoding/json.
func (r *reader) value(n *yaml.Node) any {
	n = real(n)
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		r.pairs(n, func(key string, _, v *yaml.Node) { object[key] = r.value(v) })
		return object
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, r.value(item))
		}
		return list
	}
	return r.scalar(n)
}

func (r *reader) scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value
	case "!!null":
		return nil
	case "!!int", "!!float":
		if number.MatchString(n.Value) {
			return json.Number(n.Value)
		}
	case "!!bool":
	default:
		r.at(n, "%s is not a type of JSON", n.ShortTag())
		return nil
	}
	var v any
	err := n.Decode(&v)
	if f, ok := v.(float64); err != nil || ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		r.at(n, "%s cannot be written as JSON", kind(n))
		return nil
	}
	return v
}
