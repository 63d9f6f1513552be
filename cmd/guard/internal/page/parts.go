package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
)

// Part is something that the guard needs: a store, one of its databases, or the coordinator.
type Part struct {
	Name     string `json:"name"`
	Database string `json:"database"` // "": all of the store
	Error    string `json:"error"`    // why nobody is admitted, in words; "" if all is well
	// the store is well, and nobody is admitted without the coordinator
	Waits bool      `json:"waits"`
	Since time.Time `json:"since"` // when this guard saw it become so
}

// coordinator is the name of the coordinator among the parts.
const coordinator = "coordinator"

// Look enters what the guard needs, as it was seen last. Without a page (nil) it does nothing.
func (p *Page) Look(l guard.Look) {
	if p == nil {
		return
	}
	now := time.Now()
	found := partsOf(l)
	p.change(func() (news bool) {
		for i := range found {
			f := &found[i]
			f.Since = now
			before := slices.IndexFunc(p.parts, func(b Part) bool {
				return b.Name == f.Name && b.Database == f.Database
			})
			if before >= 0 && (p.parts[before].Error == "") == (f.Error == "") {
				f.Since = p.parts[before].Since
			}
		}
		news = !slices.Equal(p.parts, found)
		p.parts = found
		return news
	})
}

// partsOf returns the parts of a look: the stores by name, each with its databases, and the
// coordinator.
func partsOf(l guard.Look) (all []Part) {
	for name, own := range l.Protocols {
		err := l.Ready(name)
		all = append(all, Part{Name: name, Error: words(err), Waits: own == nil && err != nil})
		if len(l.Databases[name]) > 1 {
			for database, err := range l.Databases[name] {
				all = append(all, Part{Name: name, Database: database, Error: words(err)})
			}
		}
	}
	slices.SortFunc(all, func(a, b Part) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Database, b.Database))
	})
	if l.Coordinated {
		all = append(all, Part{Name: coordinator, Error: words(l.Coordinator)})
	}
	return all
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return short(err.Error())
}
