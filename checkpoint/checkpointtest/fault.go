package checkpointtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
)

// Op is a call of a journal that can fail.
type Op string

const (
	Raise    Op = "raise"
	TakeOver Op = "take"
	Publish  Op = "publish"
	Forget   Op = "forget"
	Transact Op = "transact" // at its COMMIT: the work has run
)

// Fault is how a call fails.
type Fault int

const (
	None        Fault = iota
	OutOfReach        // nothing lands; the answer is ErrTransient
	LostRequest       // nothing lands; the answer is ErrUnknown
	LostReply         // it lands, if it can; the answer is ErrUnknown
	HungRequest       // nothing lands; ErrUnknown after ctx has ended
	HungReply         // it lands, if it can; ErrUnknown after ctx has ended
)

var errInjected = errors.New("the test wanted it so")

// lands reports whether the call reaches the journal.
func (f Fault) lands() bool { return f == None || f == LostReply || f == HungReply }

// hangs reports whether the answer waits for the end of ctx.
func (f Fault) hangs() bool { return f == HungRequest || f == HungReply }

// call makes one call of the journal, with the fault that Fail returns. cp is what is known of the
// checkpoint before the call.
func (m *Memory) call(ctx context.Context, op Op, cp checkpoint.Checkpoint, do func() error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", checkpoint.ErrTransient, context.Cause(ctx))
	}
	fault := None
	if m.Fail != nil {
		fault = m.Fail(op, cp)
	}
	var err error
	if fault.lands() {
		err = do()
	}
	if fault.hangs() {
		<-ctx.Done()
	}
	switch fault {
	case None:
		return err
	case OutOfReach:
		return fmt.Errorf("%s: %w: %w", op, checkpoint.ErrTransient, errInjected)
	}
	return fmt.Errorf("%s: %w: %w", op, checkpoint.ErrUnknown, errInjected)
}
