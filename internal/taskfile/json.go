package taskfile

import (
	"encoding/json"
	"math"
	"regexp"

	"go.yaml.in/yaml/v4"
)

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
