package marks

// Removing says how an operator removes Ringfence from a store.
type Removing struct {
	Drop     bool // remove it; without this the store only says what it would remove
	WithData bool // also checkpoints and documents, which nobody can make again
}

// Removal is what there is to remove in a store, one text for people each.
type Removal struct {
	Drops   []string // what is dropped
	Data    []string // what is dropped only with Removing.WithData
	Blocked []string // why nothing is dropped now, and what to do
	Stays   []string // what is not dropped, and what else an operator should know
}

// Nothing reports whether the store has nothing of Ringfence.
func (r Removal) Nothing() bool { return len(r.Drops) == 0 && len(r.Data) == 0 }

// Settle blocks the removal of data that nobody has asked for.
func (r *Removal) Settle(o Removing) {
	if len(r.Data) > 0 && !o.WithData {
		r.Blocked = append(r.Blocked, "there are data that nobody can make again: keep a copy if you "+
			"need them, then add --with-data")
	}
}
