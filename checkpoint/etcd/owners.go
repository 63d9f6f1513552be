package etcd

import (
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// ownersMost bounds the cache. A task that is not in it costs a read.
const ownersMost = 10_000

// owner is the resource of a task. It never changes while the key exists.
type owner struct {
	resource fence.Resource
	created  int64 // the create revision of the task's key; 0: there is none
}

// owners caches the owner of each task. A transaction that relies on it compares the create
// revision, in case an operator has deleted the key.
type owners struct {
	mu  sync.Mutex
	all map[checkpoint.Name]owner
}

func (o *owners) of(task checkpoint.Name) (_ owner, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, known := o.all[task]
	return found, known
}

func (o *owners) learn(task checkpoint.Name, is owner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil || len(o.all) >= ownersMost {
		o.all = map[checkpoint.Name]owner{}
	}
	o.all[task] = is
}

func (o *owners) forget(task checkpoint.Name) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, task)
}
