package taskfile

import "go.yaml.in/yaml/v4"

// What a file may unfold to once each alias is replaced by what it stands for. Nine lines of aliases to aliases can make
// a billion.
const (
	mostNodes = 100_000
	mostDepth = 100
)

// finite reports whether the tree ends: no alias stands inside what it stands for, and it does not unfold without
// measure. Only what is finite may be walked without looking out.
func (r *reader) finite(root *yaml.Node) bool {
	w := walk{reader: r, above: map[*yaml.Node]bool{}}
	return w.visit(root, root)
}

type walk struct {
	*reader
	above map[*yaml.Node]bool // the nodes between the root and here
	nodes int
}

// visit stops at the first problem. from is the alias that has led to n, or n.
func (w *walk) visit(n, from *yaml.Node) bool {
	w.nodes++
	switch {
	case w.above[n]:
		w.at(from, "a cycle: the alias *%s stands inside of what it stands for", from.Value)
		return false
	case w.nodes > mostNodes:
		w.at(from, "it has more than %d values, aliases unfolded", mostNodes)
		return false
	case len(w.above) > mostDepth:
		w.at(from, "it is nested deeper than %d levels", mostDepth)
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

// real is the node that n stands for. Only for a finite tree.
func real(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
