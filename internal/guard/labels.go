package guard

import (
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/fence"
)

// resourcesMost is how many resources of a protocol have a label of their own. Each costs the guard
// kilobytes, and the scraper half a dozen series.
const resourcesMost = 1000

// otherResources is the label of the others. It is no name of a resource.
const otherResources = "(others)"

// labelled is what the help of a metric with a resource says.
var labelled = fmt.Sprintf("The first %d resources have their own label, the others %s.",
	resourcesMost, otherResources)

// labels holds the resources that have a label of their own, by protocol. A resource keeps it for
// as long as the guard runs, so a gauge goes down where it went up.
type labels struct {
	mu  sync.Mutex
	all map[string]map[fence.Resource]bool
}

// of returns the label of a resource, and whether it is a new one.
func (l *labels) of(protocol string, r fence.Resource) (label string, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.all[protocol]
	switch {
	case have[r]:
		return string(r), false
	case len(have) >= resourcesMost:
		return otherResources, false
	case have == nil:
		if l.all == nil {
			l.all = make(map[string]map[fence.Resource]bool)
		}
		have = make(map[fence.Resource]bool)
		l.all[protocol] = have
	}
	have[r] = true
	return string(r), true
}

// label returns the label of a claim's resource. A new one begins with all its series at zero.
func (m *Metrics) label(protocol string, c fence.Claim) string {
	label, fresh := m.labels.of(protocol, c.Resource)
	if fresh {
		m.admissions.WithLabelValues(protocol, label, admitted)
		m.admissions.WithLabelValues(protocol, label, refused)
		m.raises.WithLabelValues(protocol, label)
		m.revoked.WithLabelValues(protocol, label)
	}
	return label
}
