package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Exit codes of the programs themselves.
const (
	Done  = 0
	Error = 1
	Usage = 2
	Lost  = 3 // leadership was lost, and the work that needed it was stopped

	Uncovered = 4 // guard check has found what neither guard nor seals cover

	// OwnOffset is added to the first three by a command that passes on the code of a command. So 115,
	// 116 and 117 are its own: few commands use them, and neither shells, env(1), timeout(1), xargs(1)
	// nor sysexits(3) give them a meaning.
	OwnOffset = 114
)

// Mistake is a usage error. A command that returns one has changed nothing.
type Mistake string

// Error implements error.
func (m Mistake) Error() string { return string(m) }

// Exit is the error of a command that has already reported the reason. It is the exit code.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Passed is the error of a command that ends with the exit code of another one.
type Passed int

// Error implements error.
func (e Passed) Error() string { return fmt.Sprintf("exit code %d of the command", int(e)) }

// exiter is a context's cause that has an exit code, such as a signal.
type exiter interface {
	error
	Code() int
}

// Failed logs that the program could not do something, and returns the exit code. If a signal has
// ended ctx, Failed reports the signal instead.
func Failed(ctx context.Context, log *slog.Logger, doing string, err error) int {
	if e, ok := errors.AsType[exiter](context.Cause(ctx)); ok {
		log.Info("ended by a signal", "cause", e.Error())
		return e.Code()
	}
	log.Error("could not "+doing, "cause", err.Error())
	return Error
}
