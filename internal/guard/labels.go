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

// labels holds the resources and databases that have a label of their own, by protocol. They keep it
// for as long as the guard runs, so a gauge goes down where it went up.
type labels struct {
	mu        sync.Mutex
	resources map[string]map[place]bool
	databases map[string]map[string]bool
}

// place is a resource in a database.
type place struct {
	database string // its label
	resource fence.Resource
}

// of returns the label of a resource, and whether it is a new one.
func (l *labels) of(protocol, database string, r fence.Resource) (label string, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := place{database, r}
	have := l.resources[protocol]
	switch {
	case have[at]:
		return string(r), false
	case len(have) >= maxResources:
		return others, false
	case have == nil:
		if l.resources == nil {
			l.resources = make(map[string]map[place]bool)
		}
		have = make(map[place]bool)
		l.resources[protocol] = have
	}
	have[at] = true
	return string(r), true
}

// database returns the label of a database.
func (m *Metrics) database(protocol, name string) string {
	name = strings.ToValidUTF8(name, "?") // Prometheus takes nothing else
	l := &m.labels
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.databases[protocol]
	switch {
	case have[name]:
		return name
	case len(have) >= maxDatabases:
		return others
	case have == nil:
		if l.databases == nil {
			l.databases = make(map[string]map[string]bool)
		}
		have = make(map[string]bool)
		l.databases[protocol] = have
	}
	have[name] = true
	return name
}

// label returns the label of a claim's resource. A new one begins with all its series at zero.
func (m *Metrics) label(protocol, database string, c fence.Claim) string {
	label, fresh := m.labels.of(protocol, database, c.Resource)
	if fresh {
		m.admissions.WithLabelValues(protocol, database, label, admitted)
		m.admissions.WithLabelValues(protocol, database, label, refused)
		m.raises.WithLabelValues(protocol, database, label)
		m.revoked.WithLabelValues(protocol, database, label)
	}
	return label
}
