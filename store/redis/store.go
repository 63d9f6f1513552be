package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/store"
)

// Register is store.Store's: one script.
func (s *Store) Register(ctx context.Context, sess store.Session, claims []fence.Claim) (store.Standing, error) {
	var keys []string
	args := []any{sess.ID, sess.Birth}
	for _, c := range claims {
		keys = append(keys, key(c.Resource))
		args = append(args, string(c.Resource), c.Token.String(), string(c.Issuer))
	}
	r, err := s.run(ctx, registerScript, keys, args...)
	if err != nil {
		return store.Standing{}, err
	}
	if r.verdict == "elsewhere" {
		return store.Standing{}, fmt.Errorf("client %d is of run %s of the server, which is not the one that answers now", sess.ID, sess.Birth)
	}
	return s.standing(r, claims)
}

// standing turns a script's verdict into a step or a refusal.
func (s *Store) standing(r reply, claims []fence.Claim) (store.Standing, error) {
	if r.claim < 0 || r.claim >= len(claims) {
		return store.Standing{}, fmt.Errorf("redis answered about claim %d of %d", r.claim, len(claims))
	}
	st := store.Standing{Claim: claims[r.claim], Mark: r.mark}
	st.Mark.Resource, st.Mark.Sessions = st.Claim.Resource, 0
	switch r.verdict {
	case "admitted":
		st.Step = store.Admitted
	case "raise":
		st.Step = store.MustRaise
		if !r.installed && !s.o.Coordinated {
			return st, notInstalled()
		}
	case "revoke":
		st.Step = store.MustRevoke
	default:
		return st, refusal(r.verdict, st.Claim, st.Mark)
	}
	return st, nil
}

// refusal turns a verdict that refuses into the error.
func refusal(verdict string, c fence.Claim, m store.Mark) error {
	switch verdict {
	case "stale":
		return store.Stale(c, m)
	case "issuer":
		return store.Foreign(c, m)
	case "schema":
		return store.NotInstalled("the marker in Redis is of another version of ringfence", nil)
	case "missing":
		return notInstalled()
	}
	return fmt.Errorf("redis answered an unknown verdict %q: guard and scripts do not fit", verdict)
}

func notInstalled() error {
	return store.NotInstalled("the marker key is missing: it was never made, or Redis has lost its data since; without a coordinator nobody can say what the marks were", nil)
}

// Raise is store.Store's: one script, and before it the end of every client connection if the registry is lost.
func (s *Store) Raise(ctx context.Context, c fence.Claim) (store.Mark, error) {
	r, err := s.write(ctx, c, func(e ending) (reply, error) {
		return s.run(ctx, raiseScript, []string{key(c.Resource)}, string(c.Resource), c.Token.String(), string(c.Issuer), c.Holder,
			e.nonce, e.run, e.epoch)
	})
	before := r.mark
	before.Resource, before.Sessions = c.Resource, 0
	if err != nil {
		return before, err
	}
	if r.verdict != "raised" {
		return before, refusal(r.verdict, c, before)
	}
	return before, nil
}

// write calls a script that writes a mark until it does not find the registry lost.
func (s *Store) write(ctx context.Context, c fence.Claim, call func(ending) (reply, error)) (reply, error) {
	var e ending
	for wait := firstPause; ; wait = nextPause(wait) {
		r, err := call(e)
		if err != nil || r.verdict != "lost" {
			return r, err
		}
		if !r.installed && !s.o.Coordinated {
			return r, notInstalled()
		}
		if e.nonce != "" { // another guard is mending it too
			if err := pause(ctx, wait); err != nil {
				return r, err
			}
		}
		if e, err = s.endAll(ctx, c.Resource); err != nil {
			return r, fmt.Errorf("the sessions of %q are not known any more, and ending all connections failed: %w", c.Resource, err)
		}
	}
}

// Marks is store.Store's: one script.
func (s *Store) Marks(ctx context.Context, only ...fence.Resource) ([]store.Mark, error) {
	var args []any
	for _, r := range only {
		args = append(args, string(r))
	}
	r, err := s.run(ctx, marksScript, nil, args...)
	switch {
	case err != nil:
		return nil, err
	case r.verdict == "schema", r.verdict == "missing" && !s.o.Coordinated:
		return nil, refusal(r.verdict, fence.Claim{}, store.Mark{})
	}
	var marks []store.Mark
	for _, v := range r.list[1:] {
		fields, _ := v.([]any)
		_, m, err := parseMark(fields)
		if err != nil {
			return nil, err
		}
		if m.Resource = fence.Resource(text(fields[0])); len(only) > 0 {
			m.Sessions = 0
		}
		marks = append(marks, m)
	}
	slices.SortFunc(marks, func(a, b store.Mark) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	return marks, nil
}

// Adopt is store.Admin's: one script, and then the end of all that it found recorded.
func (s *Store) Adopt(ctx context.Context, c fence.Claim, by string) (store.Mark, error) {
	r, err := s.write(ctx, c, func(e ending) (reply, error) {
		return s.run(ctx, adoptScript, []string{key(c.Resource), auditKey}, string(c.Resource), c.Token.String(), string(c.Issuer), c.Holder,
			e.nonce, e.run, e.epoch, by)
	})
	before := r.mark
	before.Resource, before.Sessions = c.Resource, 0
	if err != nil {
		return before, err
	}
	if r.verdict != "adopted" {
		return before, refusal(r.verdict, c, before)
	}
	if _, err := s.Revoke(ctx, c); err != nil {
		return before, fmt.Errorf("the mark of %q is adopted, but its older sessions still live: %w", c.Resource, err)
	}
	return before, nil
}

// random is a name that nobody else makes up.
func random() string { return rand.Text() }
