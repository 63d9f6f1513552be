package taskfile

import "go.yaml.in/yaml/v4"

// commands reads one command, a list of words, or a list of commands.
func (r *reader) commands(n *yaml.Node) [][]any {
	items := real(n).Content
	if real(n).Kind != yaml.SequenceNode || len(items) == 0 {
		r.at(n, "redis is %s: it has to be a command such as [INCRBY, sent, 10], or a list of commands",
			emptyOr(n))
		return nil
	}
	if real(items[0]).Kind != yaml.SequenceNode {
		return [][]any{r.words(n)}
	}
	var all [][]any
	for _, item := range items {
		all = append(all, r.words(item))
	}
	return all
}

// words reads one command. Words keep their spelling: 007 stays 007.
func (r *reader) words(n *yaml.Node) (words []any) {
	if real(n).Kind != yaml.SequenceNode || len(real(n).Content) == 0 {
		r.at(n, "a Redis command is %s, not a list of words", emptyOr(n))
		return nil
	}
	for i, w := range real(n).Content {
		if real(w).Kind != yaml.ScalarNode || isNull(w) || i == 0 && real(w).Value == "" {
			r.at(w, "word %d of a Redis command is %s", i+1, kind(w))
			continue
		}
		words = append(words, real(w).Value)
	}
	return words
}
