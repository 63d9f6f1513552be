package zookeeper

import (
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// ownersMost bounds the cache. A task that is not in it costs a read.
const ownersMost = 10_000

// owners caches the resource of each task, which never changes.
type owners struct {
	mu  sync.Mutex
	all map[checkpoint.Name]fence.Resource
}

func (o *owners) of(task checkpoint.Name) (owner fence.Resource, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	owner, known = o.all[task]
	return owner, known
}

func (o *owners) learn(task checkpoint.Name, owner fence.Resource) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil || len(o.all) >= ownersMost {
		o.all = map[checkpoint.Name]fence.Resource{}
	}
	o.all[task] = owner
}
