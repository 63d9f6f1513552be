package redisjournal

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// encode returns the checkpoint as JSON, or says why it cannot be stored.
func (j *Journal) encode(c fence.Claim, cp checkpoint.Checkpoint) ([]byte, error) {
	if _, err := checkpoint.ParseName(string(cp.Task)); err != nil {
		return nil, fmt.Errorf("nothing has landed: %w", err)
	}
	switch {
	case cp.Resource != c.Resource:
		return nil, otherResource(cp.Task, cp.Resource, c)
	case cp.Version < 1:
		return nil, fmt.Errorf("%w: version %d of %s can follow none; nothing was changed",
			checkpoint.ErrConflict, cp.Version, cp.Task)
	}
	document, err := json.Marshal(cp)
	if err != nil {
		return nil, fmt.Errorf("the checkpoint of %s cannot be written as JSON, nothing "+
			"has landed: %w", cp.Task, err)
	}
	if len(document) > j.o.Limit {
		return nil, fmt.Errorf("%w: %s would have %d bytes, the journal takes %d; "+
			"nothing has landed", checkpoint.ErrTooLarge, cp.Task, len(document), j.o.Limit)
	}
	return document, nil
}

// decode reads what encode wrote, and checks the task and the version.
func decode(task checkpoint.Name, version, document string) (cp checkpoint.Checkpoint, err error) {
	if err = json.Unmarshal([]byte(document), &cp); err == nil &&
		(cp.Task != task || strconv.FormatInt(cp.Version, 10) != version) {
		err = fmt.Errorf("it is version %d of %q, stored as version %s", cp.Version, cp.Task, version)
	}
	if err != nil {
		return checkpoint.Checkpoint{Task: task},
			fmt.Errorf("%w: in the key %s: %w", checkpoint.ErrCorrupt, key(task), err)
	}
	return cp, nil
}
