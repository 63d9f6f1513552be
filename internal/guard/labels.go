package guard

import (
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/fence"
)

// maxResources is how many resources of a protocol have a label of their own. Each costs the guard
// kilobytes, and the scraper half a dozen series.
const maxResources = 1000

// maxDatabases is how many databases of a protocol have a label of their own.
const maxDatabases = 100

// others is the label of the others. It is no name of a resource.
const others = "(others)"

// labelled is what the help of a metric with a resource says.
var labelled = fmt.Sprintf("The first %d resources have their own label, the others %s.",
	maxResources, others)

// labelledResource is a resource in a database.
type labelledResource struct {
	database string // its label
	resource fence.Resource
}

// labels holds what has a label of its own, by protocol. It keeps the label for as long as the
// guard runs, so a gauge goes down where it went up.
type labels[K comparable] struct {
	max int // for each protocol

	mu   sync.Mutex
	held map[string]map[K]bool
}

// take reports whether k has a label of its own, and whether it is a new one.
func (l *labels[K]) take(protocol string, k K) (own, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.held[protocol]
	if have[k] || len(have) >= l.max {
		return have[k], false
	}
	if have == nil {
		if l.held == nil {
			l.held = make(map[string]map[K]bool)
		}
		have = make(map[K]bool)
		l.held[protocol] = have
	}
	have[k] = true
	return true, true
}
