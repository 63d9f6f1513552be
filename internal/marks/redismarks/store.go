package redismarks

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Register implements marks.Store with one script.
func (s *Store) Register(
	ctx context.Context, sess marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	var keys []string
	args := []any{sess.ID, sess.Run, sess.User}
	for _, c := range claims {
		keys = append(keys, key(c.Resource))
		args = append(args, string(c.Resource), c.Token.String(), string(c.Issuer), c.Candidate)
	}
	r, err := s.decide(ctx, registerScript, keys, args...)
	if err != nil {
		return marks.Registration{}, err
	}
	if r.verdict == "elsewhere" {
		return marks.Registration{}, wrongServer(sess.ID,
			"the server was restarted, or another one answers now")
	}
	registered, err := s.registration(r, claims)
	if r.verdict == "forbidden" {
		registered.Mark = marks.Mark{}
		err = refusal.NotAuthorized(registered.Claim, sess.User)
	}
	if err == nil && registered.Next == marks.MustRaise {
		s.looks.Put(sess, registered.Claim.Resource, r)
	}
	return registered, err
}

// registration turns a script's verdict into the next step or a refusal.
func (s *Store) registration(r decision, claims []fence.Claim) (marks.Registration, error) {
	if r.claim < 0 || r.claim >= len(claims) {
		return marks.Registration{},
			fmt.Errorf("redis answered about claim %d of %d", r.claim, len(claims))
	}
	c := claims[r.claim]
	registered := marks.Registration{Claim: c, Mark: markOf(r, c.Resource)}
	switch r.verdict {
	case "admitted":
		registered.Next = marks.Admitted
	case "raise":
		registered.Next = marks.MustRaise
		if !r.installed && !s.o.Coordinated {
			return registered, notInstalled()
		}
	case "revoke":
		registered.Next = marks.MustRevoke
	case "forbidden": // Register knows the user
	default:
		return registered, refuse(r.verdict, c, registered.Mark)
	}
	return registered, nil
}

// refuse turns a verdict that refuses into the error.
func refuse(verdict string, c fence.Claim, m marks.Mark) error {
	switch verdict {
	case "stale":
		return refusal.Stale(c, m.Token, m.Holder, m.Raised)
	case "issuer":
		return refusal.OtherIssuer(c, m.Token, m.Issuer)
	case "rolled back":
		return refusal.RolledBack(c, m.Token)
	case "schema":
		return refusal.NotInstalled("the marker in Redis is of another version of ringfence", nil)
	case "missing":
		return notInstalled()
	}
	return fmt.Errorf("redis answered an unknown verdict %q: guard and scripts do not fit", verdict)
}

func notInstalled() error {
	return refusal.NotInstalled("the marker key is missing or was restored: it was never made, "+
		"or Redis has lost or replaced its data since; "+
		"without a coordinator nobody can say what the marks were", nil)
}

// Raise implements marks.Store. It looks at the mark, unless a registration has just done so, and
// then runs one script that raises if nothing has changed since. If the registry is lost, it ends
// every client connection in between.
func (s *Store) Raise(
	ctx context.Context, sess marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	looked, cached := s.looks.Pop(sess, c.Resource)
	for wait := firstPause; ; wait = nextPause(wait) {
		var err error
		if !cached {
			looked, err = s.decide(ctx, lookScript, []string{key(c.Resource)},
				string(c.Resource), sess.User)
		}
		if cached = false; err != nil {
			return markOf(looked, c.Resource), err
		}
		r, err := s.raise(ctx, sess, c, confirm, looked)
		before := markOf(r, c.Resource)
		before.Sessions, before.Left = r.mark.Sessions, r.left
		switch {
		case err != nil, r.verdict == "raised":
			return before, err
		case r.verdict != "changed" && r.verdict != "lost":
			return before, refuse(r.verdict, c, before)
		}
		// Another guard raises too, or restores a lost registry.
		if err := pause(ctx, wait); err != nil {
			return before, err
		}
	}
}

// raise confirms and raises once. Everything that the script compares is read before the
// confirmation, also the proof that all connections were ended.
func (s *Store) raise(
	ctx context.Context, newcomer marks.SessionID, c fence.Claim, confirm marks.Confirm,
	looked decision,
) (decision, error) {
	switch {
	case looked.verdict == "schema":
		return looked, refuse("schema", c, looked.mark)
	case looked.verdict == "forbidden":
		return looked, refusal.NotAuthorized(c, newcomer.User)
	case !looked.installed && !s.o.Coordinated:
		return looked, notInstalled()
	}
	confirmed, err := confirm(ctx, markOf(looked, c.Resource))
	if err != nil {
		return looked, err
	}
	var proof endProof
	if looked.lost {
		if proof, looked, err = s.announce(ctx, c.Resource); err != nil {
			return looked, err
		}
		if confirmed, err = confirm(ctx, markOf(looked, c.Resource)); err != nil {
			return looked, err
		}
		if err := s.endAll(ctx, proof, newcomer); err != nil {
			return looked, notEnded(c.Resource, err)
		}
	}
	var left string
	if looked.kept || !looked.mark.Confirmed && looked.mark.Token != 0 {
		if left, err = s.endElsewhere(ctx, c.Resource); err != nil {
			return looked, err
		}
	}
	r, err := s.decide(ctx, raiseScript, []string{key(c.Resource)},
		string(c.Resource), confirmed.Token.String(), string(confirmed.Issuer), confirmed.Holder,
		confirmed.Candidate, looked.basis, proof.nonce, proof.epoch)
	r.left = left
	return r, err
}

// notEnded is the error of a lost registry whose sessions could not be ended.
func notEnded(r fence.Resource, err error) error {
	return fmt.Errorf("the sessions of %q are not known any more, "+
		"and ending all connections failed: %w", r, err)
}

// markOf is the mark of a decision, without the number of its sessions.
func markOf(r decision, name fence.Resource) marks.Mark {
	m := r.mark
	m.Resource, m.Sessions = name, 0
	return m
}

// Marks implements marks.Store with one script, or with one for every maxMarks resources if none
// is named.
func (s *Store) Marks(ctx context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	wanted := only
	if len(only) == 0 {
		names, err := s.names(ctx)
		if err != nil {
			return nil, err
		}
		wanted = names
	}
	var found []marks.Mark
	for most := range slices.Chunk(wanted, maxMarks) {
		read, err := s.marks(ctx, most)
		if err != nil {
			return nil, err
		}
		found = append(found, read...)
	}
	for i := range found {
		if len(only) > 0 {
			found[i].Sessions = 0
		}
	}
	slices.SortFunc(found, func(a, b marks.Mark) int { return cmp.Compare(a.Resource, b.Resource) })
	return found, nil
}

// maxMarks is how many marks one script reads: Redis does nothing else meanwhile.
const maxMarks = 500

// names returns the resources that have a mark.
func (s *Store) names(ctx context.Context) (names []fence.Resource, err error) {
	list, err := s.readMarks(ctx)
	for _, name := range list {
		names = append(names, fence.Resource(text(name)))
	}
	return names, err
}

// marks reads the marks of these resources.
func (s *Store) marks(ctx context.Context, only []fence.Resource) (found []marks.Mark, err error) {
	var args []any
	for _, r := range only {
		args = append(args, string(r))
	}
	list, err := s.readMarks(ctx, args...)
	for _, v := range list {
		fields, _ := v.([]any)
		m, err := parseMark(fields)
		if err != nil {
			return nil, err
		}
		m.Resource = fence.Resource(text(fields[0]))
		found = append(found, m)
	}
	return found, err
}

// readMarks runs marks.lua: for the names of all marks, or for these marks.
func (s *Store) readMarks(ctx context.Context, args ...any) ([]any, error) {
	r, err := s.eval(ctx, marksScript, nil, args...)
	if err != nil {
		return nil, err
	}
	if v := r.verdict(); v == "schema" || v == "missing" && !s.o.Coordinated {
		return nil, refuse(v, fence.Claim{}, marks.Mark{})
	}
	return r[1:], nil
}

// Adopt implements marks.Admin. It runs one script, and then ends every session that the resource
// had.
func (s *Store) Adopt(ctx context.Context, c fence.Claim, by string) (marks.Mark, error) {
	r, err := s.adopt(ctx, c, by)
	before := markOf(r, c.Resource)
	before.Left = r.left
	if err != nil {
		return before, err
	}
	if r.verdict != "adopted" {
		return before, refuse(r.verdict, c, before)
	}
	return before, marks.EndOlder(ctx, s, c)
}

// adopt runs the script until the registry is no longer lost.
func (s *Store) adopt(ctx context.Context, c fence.Claim, by string) (decision, error) {
	left, err := s.endElsewhere(ctx, c.Resource)
	if err != nil {
		return decision{}, err
	}
	var proof endProof
	for wait := firstPause; ; wait = nextPause(wait) {
		r, err := s.decide(ctx, adoptScript, []string{key(c.Resource), auditKey},
			string(c.Resource), c.Token.String(), string(c.Issuer), c.Holder,
			proof.nonce, proof.epoch, by, random())
		r.left = left
		if err != nil || r.verdict != "lost" {
			return r, err
		}
		if proof.nonce != "" { // a guard restores the registry too
			if err := pause(ctx, wait); err != nil {
				return r, err
			}
		}
		if proof, _, err = s.announce(ctx, c.Resource); err == nil {
			err = s.endAll(ctx, proof, marks.SessionID{})
		}
		if err != nil {
			return r, notEnded(c.Resource, err)
		}
	}
}

// random is a name that nobody else can guess.
func random() string { return rand.Text() }
