package redismarks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Revoke implements marks.Store. It lists the sessions that are not under the claim, ends them, and
// removes their records, until the list is empty.
func (s *Store) Revoke(
	ctx context.Context, _ marks.SessionID, c fence.Claim,
) (ended int, err error) {
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

// others removes the records of sessions of a run that are gone. Then it lists the clients whose
// sessions are not under the claim, and the run that they belong to.
func (s *Store) others(
	ctx context.Context, c fence.Claim, run string, gone []any,
) (string, []any, error) {
	args := append([]any{string(c.Resource), c.Token.String(), string(c.Issuer), run}, gone...)
	r, err := s.eval(ctx, othersScript, []string{key(c.Resource)}, args...)
	switch {
	case err != nil:
		return "", nil, err
	case r.verdict() == "raise":
		return "", nil, fmt.Errorf("revoke for %s: it is not the mark yet, nothing was ended", c)
	case r.verdict() != "others":
		return "", nil, notListed(r, c)
	}
	return text(r[1]), r[2:], nil
}

// notListed turns a verdict of others.lua that lists nobody into the error.
func notListed(r reply, c fence.Claim) error {
	d, err := r.decision()
	if err != nil {
		return err
	}
	d.mark.Resource = c.Resource
	return refuse(d.verdict, c, d.mark)
}

// end returns true once none of these clients of this run is left. It returns false when another
// run of the server answered: then nothing is known of them, and the list must be read again.
func (s *Store) end(
	ctx context.Context, c fence.Claim, run string, ids []any,
) (gone bool, err error) {
	err = killAll(ctx, s.db, run, ids, func(err error) bool {
		return !errors.Is(err, errOtherRun) && !driver.IsPermissionError(err)
	})
	switch {
	case err == nil:
		return true, nil
	case driver.IsPermissionError(err):
		detail := "the guard's user may not run CLIENT KILL and CLIENT LIST; " +
			"clients " + list(ids) + " still live"
		return false, refusal.Unrevoked(c, detail, Explain(err))
	case errors.Is(err, errOtherRun) && pause(ctx, firstPause) == nil:
		return false, nil
	}
	detail := fmt.Sprintf("clients %s still live: %v", list(ids), err)
	return false, refusal.Unrevoked(c, detail, errors.Join(ctx.Err(), err))
}

// killAll ends clients of one run of a server. It tries until none is left, an error is not one to
// try again after, or ctx ends. It returns the last error.
func killAll(
	ctx context.Context, db *driver.Client, run string, ids []any, again func(error) bool,
) error {
	for wait := firstPause; ; wait = nextPause(wait) {
		err := kill(ctx, db.Pipeline(), run, ids)
		if err == nil || !again(err) || pause(ctx, wait) != nil {
			return err
		}
	}
}

// stillThere reports whether the server that answers, or is busy, may still have some of the
// clients.
func stillThere(err error) bool { return errors.Is(err, errAlive) || isBusy(err) }

// errAlive: a client that was killed has not ended yet.
var errAlive = errors.New("the server still lists some of them")

// errOtherRun: another run of the server answered than the one that the session ids belong to.
var errOtherRun = errors.New("the server that answers is of another run")

// kill ends clients and then lists those that are left, in one pipeline that also shows which run
// of the server answers. An id that the server does not know is gone.
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
	if text, err := left.Text(); err != nil || strings.TrimSpace(text) != "" {
		return errAlive
	}
	return nil
}

// runID reads the run id in INFO server.
func runID(info string) string { return infoField(info, "run_id") }

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// list names at most ten clients, for an error.
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

// Alive reports whether the server's list of clients still has the session.
func (s *Store) Alive(ctx context.Context, sess marks.SessionID) (bool, error) {
	run, line, err := s.listed(ctx, sess.ID)
	return run == sess.Run && strings.TrimSpace(line) != "", err
}

// AtRest reports whether a session has had all its answers and waits for none: it is in no
// transaction, in no command that blocks, and has subscribed to nothing. It is false if the session
// is gone, or on another run.
func (s *Store) AtRest(ctx context.Context, sess marks.SessionID) (bool, error) {
	line, err := s.db.Do(ctx, "CLIENT", "LIST", "ID", sess.ID).Text()
	flags := fieldOf(line, "flags")
	return flags != "" && !strings.ContainsAny(flags, "bxPOSM"), Explain(err)
}

// Release implements marks.Store. Sessions of another run are gone; the next raise removes their
// records. No session is let go: Redis ends a client in the time that a proof would take.
func (s *Store) Release(
	ctx context.Context, all ...marks.Departed,
) (leaving []marks.SessionID, err error) {
	for most := range slices.Chunk(all, maxRelease) {
		if err := s.release(ctx, most); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// maxRelease is how many sessions one script releases: Redis does nothing else meanwhile.
const maxRelease = 500

// release asks the server's list of clients which of these sessions are gone, and then drops their
// records. A run never uses a client id twice, so none of these comes back in between.
func (s *Store) release(ctx context.Context, all []marks.Departed) error {
	var ids []any
	for _, d := range all {
		ids = append(ids, d.Session.ID)
	}
	run, lines, err := s.listed(ctx, ids...)
	if err != nil {
		return err
	}
	alive := byID(lines)
	args := []any{run}
	for _, d := range all {
		if _, lives := alive[strconv.FormatInt(d.Session.ID, 10)]; lives || d.Session.Run != run {
			continue
		}
		for _, r := range d.Resources {
			args = append(args, d.Session.ID, string(r))
		}
	}
	if len(args) == 1 {
		return nil
	}
	_, err = s.eval(ctx, releaseScript, nil, args...)
	return err
}
