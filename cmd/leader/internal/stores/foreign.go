package stores

import (
	"fmt"

	"github.com/ringfence/ringfence/internal/settings"
)

// Foreign checks URLs that a client of this process has named, and returns them so that nothing but
// the URL itself counts: no file, no program and no socket that this process may open and the
// client may not, and no password from this process's environment.
func Foreign(urls settings.URLs) (all settings.URLs, err error) {
	for i, u := range urls {
		k := kindOf(u)
		if k == nil {
			return nil, fmt.Errorf("stores: number %d: there is no store %s://", i+1, u.Scheme())
		}
		u, err := k.foreign(u)
		if err != nil {
			return nil, fmt.Errorf("stores: number %d: %w", i+1, err)
		}
		all = append(all, u)
	}
	return all, nil
}
