package redisjournal

import "github.com/ringfence/ringfence/checkpoint"

// The package documentation says what the keys contain. The key of the set is no task's key.
const (
	taskPrefix = "ringfence:.checkpoint:"
	tasksKey   = "ringfence:.checkpoints"
)

func key(task checkpoint.Name) string { return taskPrefix + string(task) }

// channel returns the channel for a task's publishes. The message is the version.
func channel(task checkpoint.Name) string { return taskPrefix + string(task) }
