package documents

import (
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

var (
	// ErrConflict: a document has another version than the change names. Nothing has changed. Read it
	// again and decide again.
	ErrConflict = errors.New("a document has another version")
	// ErrUnknown: the answer was lost. The change may have been made, or may be made later. Read the
	// documents. It matches fence.ErrUnknown.
	ErrUnknown = fmt.Errorf("%w; the change may have been made", fence.ErrUnknown)
	// ErrUnreachable: the coordinator has not answered in time, or its answer is of no use, such as
	// that it is overloaded. Nothing has changed. It matches fence.ErrNotDone.
	ErrUnreachable = fmt.Errorf("no usable answer of the coordinator; %w", fence.ErrNotDone)
	// ErrTooLarge: the coordinator does not take so much data. Nothing has changed.
	ErrTooLarge = errors.New("too large for the coordinator")
	// ErrBadPath: the text is not a path. Nothing was sent.
	ErrBadPath = errors.New("not a path")
	// ErrBadChange: the change contradicts itself or has too many writes. Nothing was sent.
	ErrBadChange = errors.New("not a change")
)
