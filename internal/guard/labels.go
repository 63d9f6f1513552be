package guard

import (
	"fmt"
	"strings"
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

// database returns the label of a database.
func (m *Metrics) database(protocol, name string) string {
	name = strings.ToValidUTF8(name, "?") // Prometheus takes nothing else
	if own, _ := m.ofDatabases.take(protocol, name); !own {
		return others
	}
	return name
}

// label returns the label of a claim's resource. A new one begins with all its series at zero.
func (m *Metrics) label(protocol, database string, c fence.Claim) string {
	own, fresh := m.ofResources.take(protocol, labelledResource{database, c.Resource})
	if !own {
		return others
	}
	label := string(c.Resource)
	if fresh {
		m.admissions.WithLabelValues(protocol, database, label, admitted)
		m.admissions.WithLabelValues(protocol, database, label, refused)
		m.raises.WithLabelValues(protocol, database, label)
		m.revoked.WithLabelValues(protocol, database, label)
	}
	return label
}
