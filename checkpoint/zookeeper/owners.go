package zookeeper

import (
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// ownersMost bounds the cache. A task that is not in it costs a read.
const ownersMost = 10_000

// owner is the resource of a task, which does not change while its znode exists.
type owner struct {
	resource fence.Resource
	created  int64 // the znode's czxid; 0 if it is not known
	// under is the token of a claim to the resource that led at a time when the task was the
	// resource's; 0 if none is known. See Publish.
	under fence.Token
}

// owners caches the owner of each task.
type owners struct {
	mu  sync.Mutex
	all map[checkpoint.Name]owner
}

func (o *owners) of(task checkpoint.Name) owner {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[task]
}

// learn records an owner. It keeps the token if the resource is the same and the new one has none.
func (o *owners) learn(task checkpoint.Name, is owner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil || len(o.all) >= ownersMost {
		o.all = map[checkpoint.Name]owner{}
	}
	if was := o.all[task]; is.under == 0 && is.resource == was.resource {
		is.under = was.under
	}
	o.all[task] = is
}

func (o *owners) forget(task checkpoint.Name) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, task)
}
