package settings

// Group is a struct of settings whose names all begin with Prefix.
type Group struct {
	Prefix string
	Into   any // a pointer to the struct
}

// Grouped is a settings struct one of whose settings names groups of further ones. Groups is called
// once the struct's own settings are read.
type Grouped interface{ Groups() []Group }

func groupsOf(into any) []Group {
	if g, ok := into.(Grouped); ok {
		return g.Groups()
	}
	return nil
}
