package job

import "errors"

// Errors about jobs. None of them says that something has changed.
var (
	// ErrNotFound: the group has no job of this ID, or has forgotten it after its end.
	ErrNotFound = errors.New("there is no such job")
	// ErrWrongState: Cancel finds that the job has ended, or Retry that it has not failed.
	ErrWrongState = errors.New("the job is in another state")
	// ErrTaken: another job that has not ended has the same unique key.
	ErrTaken = errors.New("another unfinished job has the unique key")
)
