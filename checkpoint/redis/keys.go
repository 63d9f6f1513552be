package redis

import "github.com/ringfence/ringfence/checkpoint"

// The keys and channels; package documentation says what is in them. No task's key can be that of
// the set.
const (
	taskPrefix = "ringfence:.checkpoint:"
	tasksKey   = "ringfence:.checkpoints"
)

func key(task checkpoint.Name) string { return taskPrefix + string(task) }

// channel is where publishes of a task are told of. The message is the version.
func channel(task checkpoint.Name) string { return taskPrefix + string(task) }
