package taskfile

import "go.yaml.in/yaml/v4"

// Limits on the size of a file after each alias is replaced by its value. Nine lines of aliases to
// aliases can expand to a billion values.
const (
	maxNodes = 100_000
	maxDepth = 100
)

// finite reports whether the tree is finite: no alias is inside its own value, and the limits hold.
// Other code walks only trees that have passed this check.
func (r *reader) finite(root *yaml.Node) bool {
	w := walk{reader: r, above: map[*yaml.Node]bool{}}
	return w.visit(root, root)
}

type walk struct {
	*reader
	above map[*yaml.Node]bool // the nodes between the root and here
	nodes int
}

// visit stops at the first problem. from is the alias that leads to n, or n itself.
func (w *walk) visit(n, from *yaml.Node) bool {
	w.nodes++
	switch {
	case w.above[n]:
		w.at(from, "a cycle: the alias *%s is inside its own value", from.Value)
		return false
	case w.nodes > maxNodes:
		w.at(from, "it has more than %d values, with aliases expanded", maxNodes)
		return false
	case len(w.above) > maxDepth:
		w.at(from, "it is nested deeper than %d levels", maxDepth)
		return false
	}
	w.above[n] = true
	defer delete(w.above, n)
	if n.Kind == yaml.AliasNode {
		return w.visit(n.Alias, n)
	}
	for _, c := range n.Content {
		if !w.visit(c, c) {
			return false
		}
	}
	return true
}

// real resolves an alias. The tree has to be finite.
func real(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
