package stores

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/settings"
)

// Foreign checks URLs that a client of this process has named, and returns them so that nothing but
// the URL itself counts: no file, no program and no socket that this process may open and the
// client may not, and no password from this process's environment.
func Foreign(urls settings.URLs) (all settings.URLs, err error) {
	for i, u := range urls {
		at := slices.IndexFunc(known, func(k kind) bool { return slices.Contains(k.Schemes, u.Scheme()) })
		if at < 0 {
			return nil, fmt.Errorf("stores: number %d: there is no store %s://", i+1, u.Scheme())
		}
		u, err := known[at].foreign(u)
		if err != nil {
			return nil, fmt.Errorf("stores: number %d: %w", i+1, err)
		}
		all = append(all, u)
	}
	return all, nil
}
