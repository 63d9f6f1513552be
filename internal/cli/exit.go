package cli

import (
	"context"
	"errors"
	"log/slog"
)

// Exit codes of a program's own. What a command exits with that leader runs is the command's.
const (
	Done  = 0
	Error = 1
	Usage = 2
	Lost  = 3 // leadership was lost, and what needed it was stopped
)

// ending is the cause of a context that says what to exit with, such as a signal.
type ending interface {
	error
	Code() int
}

// Failed reports an error of the program's own. Where a signal has ended the waiting, that is what
// is reported.
func Failed(ctx context.Context, log *slog.Logger, doing string, err error) int {
	if e, ok := errors.AsType[ending](context.Cause(ctx)); ok {
		log.Info("ended by a signal", "cause", e.Error())
		return e.Code()
	}
	log.Error("could not "+doing, "cause", err.Error())
	return Error
}
