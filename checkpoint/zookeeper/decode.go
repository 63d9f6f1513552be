package zookeeper

import (
	"encoding/json"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// decode reads a stored checkpoint. The version comes from the znode, not from the JSON.
func (j *Journal) decode(doc document) (cp checkpoint.Checkpoint, err error) {
	if err := json.Unmarshal(doc.Data, &cp); err != nil {
		return checkpoint.Checkpoint{}, corrupt(doc, err)
	}
	if cp.Task != checkpoint.Name(doc.Name) {
		return checkpoint.Checkpoint{}, corrupt(doc,
			fmt.Errorf("it says that it is of task %.140q", cp.Task))
	}
	if _, err := fence.ParseResource(string(cp.Resource)); err != nil {
		return checkpoint.Checkpoint{}, corrupt(doc, err)
	}
	cp.Version = doc.Version
	j.owners.learn(cp.Task, owner{resource: cp.Resource, created: doc.Created})
	return cp, nil
}

func corrupt(doc document, why error) error {
	return fmt.Errorf("%w: version %d of %s in ZooKeeper is no checkpoint: %w; "+
		"nothing was changed: repair the znode, or delete it to begin the task again",
		checkpoint.ErrCorrupt, doc.Version, doc.Name, why)
}
