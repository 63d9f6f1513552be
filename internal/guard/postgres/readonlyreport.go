package postgres

// The server reports the settings of a session without a token before each ReadyForQuery. Here the
// guard waits for that, and asks for it where the client does not.

// report has the server report the settings before the client's next message, with a Sync that the
// client has not sent. The client gets no ReadyForQuery for it. After an error the server would have
// skipped everything before the client's Sync, so the guard does.
func (r *readOnly) report() error {
	r.tell(func() { r.own = true })
	if err := r.exchange('S', nil, ""); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipping = r.failed
	return nil
}

// suspended reports whether the Execute has stopped at its limit of rows (PortalSuspended). Then its
// statement is not complete, so it has not ended the transaction, and a Sync would take from the client
// the portal with the other rows.
func (r *readOnly) suspended() (bool, error) {
	if !r.limited {
		return false, nil
	}
	if err := r.send('H', nil, ""); err != nil {
		return false, err
	}
	if err := r.await(func() bool { return r.outcome != 0 }); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome != 's' {
		return false, nil
	}
	r.executed, r.outcome = false, 0
	return true, nil
}

// exchange sends a message that the server answers with ReadyForQuery, and waits for that.
func (r *readOnly) exchange(kind byte, body []byte, why string) error {
	r.tell(func() { r.asked = true })
	if err := r.send(kind, body, why); err != nil {
		return err
	}
	if err := r.await(func() bool { return !r.asked }); err != nil {
		return err
	}
	r.begun, r.executed = false, false
	return nil
}

// await sends what is buffered, and waits until something is so, or nothing more comes from the server.
func (r *readOnly) await(so func() bool) error {
	if err := r.toServer.Flush(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for !so() {
		if r.over {
			return errDown
		}
		r.news.Wait()
	}
	return nil
}

// tell changes something that may be awaited.
func (r *readOnly) tell(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	r.news.Broadcast()
}
