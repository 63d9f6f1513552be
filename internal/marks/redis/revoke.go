package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Revoke is marks.Store's: it lists the sessions that are not under the claim, ends them, and forgets them, until the
// list is empty.
func (s *Store) Revoke(ctx context.Context, _ marks.Session, c fence.Claim) (ended int, err error) {
	run, ids, err := s.others(ctx, c, "", nil)
	for err == nil && len(ids) > 0 {
		gone, failed := s.end(ctx, c, run, ids)
		if failed != nil {
			return ended, failed
		}
		var forget []any
		if gone {
			forget = ids
			ended += len(ids)
		}
		run, ids, err = s.others(ctx, c, run, forget)
	}
	return ended, err
}

// others forgets sessions of a run that are gone, and lists the clients whose sessions are not under the claim.
func (s *Store) others(ctx context.Context, c fence.Claim, run string, gone []any) (string, []any, error) {
	args := append([]any{string(c.Resource), c.Token.String(), string(c.Issuer), run}, gone...)
	r, err := s.run(ctx, othersScript, []string{key(c.Resource)}, args...)
	switch {
	case err != nil:
		return "", nil, err
	case r.verdict == "raise":
		return "", nil, fmt.Errorf("revoke for %s: it is not the mark yet, nothing was ended", c)
	case r.verdict != "others":
		r.mark.Resource = c.Resource
		return "", nil, refuse(r.verdict, c, r.mark)
	}
	return text(r.list[1]), r.list[2:], nil
}

// end returns true once none of these clients of this run is left, and false when another run of the server answered:
// then nothing is known of them, and the list has to be read again.
func (s *Store) end(ctx context.Context, c fence.Claim, run string, ids []any) (gone bool, err error) {
	wait := firstPause
	for {
		err := kill(ctx, s.db.Pipeline(), run, ids)
		switch {
		case err == nil:
			return true, nil
		case driver.IsPermissionError(err):
			return false, refusal.Unrevoked(c, "the guard's user may not run CLIENT KILL and CLIENT LIST; clients "+list(ids)+" still live", Explain(err))
		}
		if pause(ctx, wait) != nil {
			return false, refusal.Unrevoked(c, fmt.Sprintf("clients %s still live: %v", list(ids), err), errors.Join(ctx.Err(), err))
		}
		if errors.Is(err, errOtherRun) {
			return false, nil
		}
		wait = nextPause(wait)
	}
}

// errAlive says that a client that was told to end has not ended yet.
var errAlive = errors.New("the server still lists some of them")

// errOtherRun says that the server that answered is not the one that was meant.
var errOtherRun = errors.New("the server that answers is of another run")

// kill ends clients and asks whether any is left, all on one connection, which proves itself to be of this run. An id
// that the server does not know is gone.
func kill(ctx context.Context, p driver.Pipeliner, run string, ids []any) error {
	info := p.Info(ctx, "server")
	for _, id := range ids {
		p.Do(ctx, "CLIENT", "KILL", "ID", id)
	}
	left := p.Do(ctx, append([]any{"CLIENT", "LIST", "ID"}, ids...)...)
	if _, err := p.Exec(ctx); err != nil {
		return err
	}
	if runID(info.Val()) != run {
		return errOtherRun
	}
	if listed(left) {
		return errAlive
	}
	return nil
}

// listed says that CLIENT LIST found anybody.
func listed(list *driver.Cmd) bool {
	text, err := list.Text()
	return err != nil || strings.TrimSpace(text) != ""
}

// runID reads INFO server.
func runID(info string) string { return infoField(info, "run_id") }

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// list names clients in an error, not more than a few.
func list(ids []any) string {
	const most = 10
	var names []string
	for i, id := range ids {
		if i == most {
			names = append(names, "and "+strconv.Itoa(len(ids)-most)+" more")
			break
		}
		names = append(names, text(id))
	}
	return strings.Join(names, ", ")
}

// Alive tells whether a session is still there, by the server's list of clients.
func (s *Store) Alive(ctx context.Context, sess marks.Session) (bool, error) {
	var left *driver.Cmd
	var info *driver.StringCmd
	err := retry(ctx, func() error {
		p := s.db.Pipeline()
		info = p.Info(ctx, "server")
		left = p.Do(ctx, "CLIENT", "LIST", "ID", sess.ID)
		_, err := p.Exec(ctx)
		return err
	})
	if err != nil {
		return false, Explain(err)
	}
	return runID(info.Val()) == sess.Run && listed(left), nil
}

// Release is marks.Store's. A session of another run is gone, and forgotten with the next raise.
func (s *Store) Release(ctx context.Context, sess marks.Session) error {
	s.seen.forget(sess)
	alive, err := s.Alive(ctx, sess)
	if err != nil || alive {
		return err
	}
	_, err = s.run(ctx, releaseScript, nil, sess.Run, sess.ID)
	return err
}
