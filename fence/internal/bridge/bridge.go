// Package bridge lets fence/elector make terms, although package fence has no public name for that.
package bridge

// NewTerm is a function of package fence. Its type needs types of fence, so only fence/elector
// knows it.
var NewTerm any
