package fence

// SetupError says what an operator must fix before a server can be guarded at all, such as a pooler
// in between or a missing privilege. Nothing is admitted until then.
type SetupError struct {
	What, Hint string
	Cause      error // what the server said, or nil
	// it may also be over by itself, as a failover is: a later term may meet it no more
	Passes bool
}

func (e *SetupError) Error() string { return e.What + " (" + e.Hint + ")" }

// Is lets Permanent find it.
func (e *SetupError) Is(target error) bool { return target == errPermanent && !e.Passes }

// Unwrap returns the cause.
func (e *SetupError) Unwrap() error { return e.Cause }
