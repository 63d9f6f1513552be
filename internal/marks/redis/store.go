package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Register is marks.Store's: one script.
func (s *Store) Register(ctx context.Context, sess marks.Session, claims []fence.Claim) (marks.Registration, error) {
	var keys []string
	args := []any{sess.ID, sess.Run}
	for _, c := range claims {
		keys = append(keys, key(c.Resource))
		args = append(args, string(c.Resource), c.Token.String(), string(c.Issuer))
	}
	r, err := s.run(ctx, registerScript, keys, args...)
	if err != nil {
		return marks.Registration{}, err
	}
	if r.verdict == "elsewhere" {
		return marks.Registration{}, elsewhere(sess.ID, "the server was restarted, or another one answers now")
	}
	st, err := s.standing(r, claims)
	if err == nil && st.Next == marks.MustRaise {
		s.seen.put(newcomer{sess, st.Claim.Resource}, r)
	}
	return st, err
}

// standing turns a script's verdict into a step or a refusal.
func (s *Store) standing(r reply, claims []fence.Claim) (marks.Registration, error) {
	if r.claim < 0 || r.claim >= len(claims) {
		return marks.Registration{}, fmt.Errorf("redis answered about claim %d of %d", r.claim, len(claims))
	}
	st := marks.Registration{Claim: claims[r.claim], Mark: r.mark}
	st.Mark.Resource, st.Mark.Sessions = st.Claim.Resource, 0
	switch r.verdict {
	case "admitted":
		st.Next = marks.Admitted
	case "raise":
		st.Next = marks.MustRaise
		if !r.installed && !s.o.Coordinated {
			return st, notInstalled()
		}
	case "revoke":
		st.Next = marks.MustRevoke
	default:
		return st, refuse(r.verdict, st.Claim, st.Mark)
	}
	return st, nil
}

// refusal turns a verdict that refuses into the error.
func refuse(verdict string, c fence.Claim, m marks.Mark) error {
	switch verdict {
	case "stale":
		return refusal.Stale(c, m.Token, m.Holder, m.Raised)
	case "issuer":
		return refusal.OtherIssuer(c, m.Token, m.Issuer)
	case "schema":
		return refusal.NotInstalled("the marker in Redis is of another version of ringfence", nil)
	case "missing":
		return notInstalled()
	}
	return fmt.Errorf("redis answered an unknown verdict %q: guard and scripts do not fit", verdict)
}

func notInstalled() error {
	return refusal.NotInstalled("the marker key is missing: it was never made, or Redis has lost its data since; without a coordinator nobody can say what the marks were", nil)
}

// Raise is marks.Store's: a look, unless a registration has just done that, and one script that compares what was seen. If
// the registry is lost every client connection is ended in between.
func (s *Store) Raise(ctx context.Context, sess marks.Session, c fence.Claim, confirm marks.Confirm) (marks.Mark, error) {
	seen, known := s.seen.take(newcomer{sess, c.Resource})
	for wait := firstPause; ; wait = nextPause(wait) {
		var err error
		if !known {
			seen, err = s.run(ctx, lookScript, []string{key(c.Resource)}, string(c.Resource))
		}
		if known = false; err != nil {
			return markOf(seen, c.Resource), err
		}
		r, err := s.raise(ctx, sess, c, confirm, seen)
		before := markOf(r, c.Resource)
		before.Sessions = r.mark.Sessions
		switch {
		case err != nil, r.verdict == "raised":
			return before, err
		case r.verdict != "changed" && r.verdict != "lost":
			return before, refuse(r.verdict, c, before)
		}
		if err := pause(ctx, wait); err != nil { // another guard is raising, or mending, too
			return before, err
		}
	}
}

// raise confirms and raises once. What the script compares is always read before the confirmation: the proof that
// connections were ended, too.
func (s *Store) raise(ctx context.Context, newcomer marks.Session, c fence.Claim, confirm marks.Confirm, seen reply) (reply, error) {
	switch {
	case seen.verdict == "schema":
		return seen, refuse("schema", c, seen.mark)
	case !seen.installed && !s.o.Coordinated:
		return seen, notInstalled()
	}
	confirmed, err := confirm(ctx, markOf(seen, c.Resource))
	if err != nil {
		return seen, err
	}
	var e ending
	if seen.lost {
		if e, seen, err = s.announce(ctx, c.Resource); err != nil {
			return seen, err
		}
		if confirmed, err = confirm(ctx, markOf(seen, c.Resource)); err != nil {
			return seen, err
		}
		if err := s.endAll(ctx, e, newcomer); err != nil {
			return seen, fmt.Errorf("the sessions of %q are not known any more, and ending all connections failed: %w", c.Resource, err)
		}
	}
	return s.run(ctx, raiseScript, []string{key(c.Resource)}, string(c.Resource), confirmed.Token.String(), string(confirmed.Issuer),
		confirmed.Holder, seen.basis, e.nonce, e.epoch)
}

// markOf is the mark that a reply is about.
func markOf(r reply, name fence.Resource) marks.Mark {
	m := r.mark
	m.Resource, m.Sessions = name, 0
	return m
}

// Marks is marks.Store's: one script.
func (s *Store) Marks(ctx context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	var args []any
	for _, r := range only {
		args = append(args, string(r))
	}
	r, err := s.run(ctx, marksScript, nil, args...)
	switch {
	case err != nil:
		return nil, err
	case r.verdict == "schema", r.verdict == "missing" && !s.o.Coordinated:
		return nil, refuse(r.verdict, fence.Claim{}, marks.Mark{})
	}
	var found []marks.Mark
	for _, v := range r.list[1:] {
		fields, _ := v.([]any)
		_, m, err := parseMark(fields)
		if err != nil {
			return nil, err
		}
		if m.Resource = fence.Resource(text(fields[0])); len(only) > 0 {
			m.Sessions = 0
		}
		found = append(found, m)
	}
	slices.SortFunc(found, func(a, b marks.Mark) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	return found, nil
}

// Adopt is marks.Admin's: one script, and then the end of all that it found recorded.
func (s *Store) Adopt(ctx context.Context, c fence.Claim, by string) (marks.Mark, error) {
	r, err := s.adopt(ctx, c, by)
	before := markOf(r, c.Resource)
	if err != nil {
		return before, err
	}
	if r.verdict != "adopted" {
		return before, refuse(r.verdict, c, before)
	}
	if _, err := s.Revoke(ctx, marks.Session{}, c); err != nil {
		return before, fmt.Errorf("the mark of %q is adopted, but its older sessions still live: %w", c.Resource, err)
	}
	return before, nil
}

// adopt calls the script until it does not find the registry lost.
func (s *Store) adopt(ctx context.Context, c fence.Claim, by string) (reply, error) {
	var e ending
	for wait := firstPause; ; wait = nextPause(wait) {
		r, err := s.run(ctx, adoptScript, []string{key(c.Resource), auditKey}, string(c.Resource), c.Token.String(), string(c.Issuer), c.Holder,
			e.nonce, e.epoch, by, random())
		if err != nil || r.verdict != "lost" {
			return r, err
		}
		if e.nonce != "" { // a guard is mending it too
			if err := pause(ctx, wait); err != nil {
				return r, err
			}
		}
		if e, _, err = s.announce(ctx, c.Resource); err == nil {
			err = s.endAll(ctx, e, marks.Session{})
		}
		if err != nil {
			return r, fmt.Errorf("the sessions of %q are not known any more, and ending all connections failed: %w", c.Resource, err)
		}
	}
}

// random is a name that nobody else makes up.
func random() string { return rand.Text() }
