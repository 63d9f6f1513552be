package redismarks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// endProof proves that every connection that could be an old session was ended: the nonce was in
// the marker before that, on this server. A script accepts the proof only if the nonce is still
// there, so a second loss of the data is noticed.
type endProof struct {
	nonce, run string
	epoch      string // for the marker, if it has to be created
}

// announce writes the nonce, and returns what a raise then depends on. Install passes no resource.
func (s *Store) announce(ctx context.Context, r fence.Resource) (endProof, decision, error) {
	e := endProof{nonce: random(), epoch: random()}
	keys := []string{}
	if r != "" {
		keys = append(keys, key(r))
	}
	answer, err := s.eval(ctx, endingScript, keys, string(r), e.nonce)
	if err != nil {
		return e, decision{}, err
	}
	if r == "" {
		e.run = text(answer[1])
		return e, decision{}, nil
	}
	announced, err := answer.decision()
	e.run = announced.runID
	return e, announced, err
}

// endAll ends every client connection of the server except the newcomer's and the one it uses
// itself: clients, subscribers, control connections of other guards. The store needs this when the
// registry is lost and the sessions that were in it may still be alive. A client that connects
// after endAll has read the list cannot be one of them.
func (s *Store) endAll(ctx context.Context, e endProof, newcomer marks.SessionID) error {
	for wait := firstPause; ; wait = nextPause(wait) {
		err := retry(ctx, func() error { return s.endOthers(ctx, e, newcomer) })
		if !errors.Is(err, errAlive) {
			return err
		}
		if pause(ctx, wait) != nil {
			return err
		}
	}
}

func (s *Store) endOthers(ctx context.Context, e endProof, newcomer marks.SessionID) error {
	conn := s.db.Conn() // one connection, so that it can spare itself
	defer conn.Close()
	p := conn.Pipeline()
	own, info, list := p.ClientID(ctx), p.Info(ctx, "server"), p.ClientList(ctx)
	if _, err := p.Exec(ctx); err != nil {
		return Explain(err)
	}
	if runID(info.Val()) != e.run {
		return fmt.Errorf("%w: behind this address are several servers, or it was just restarted",
			errOtherRun)
	}
	clients := byID(list.Val())
	maps.DeleteFunc(clients, func(_, line string) bool { return isLink(line) })
	delete(clients, strconv.FormatInt(own.Val(), 10))
	if newcomer.Run == e.run {
		delete(clients, strconv.FormatInt(newcomer.ID, 10))
	}
	var ids []any
	for id := range clients {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	return kill(ctx, conn.Pipeline(), e.run, ids)
}

// isLink reports whether a line of CLIENT LIST is of a replica, or of the primary that this replica
// follows. A monitor is listed with O and not with S.
func isLink(line string) bool { return strings.ContainsAny(fieldOf(line, "flags"), "SM") }

// Image returns a text that changes if Install changes the marker.
func Image(ctx context.Context, url string) (string, error) {
	s, err := Open(ctx, url, Options{Connections: 1})
	if err != nil {
		return "", err
	}
	defer s.Close()
	all, err := s.db.HMGet(ctx, markerKey, "schema", "epoch", "ended", "origin").Result()
	return fmt.Sprint(all...), err
}

// Install creates the marker in the server at url. It may be repeated: it keeps a marker that is
// there, and the marks. Before it creates a missing marker, it ends every client connection of the
// server, because sessions of a marker that was lost may still be alive. By running it, the
// operator asserts that no older leader runs.
func Install(ctx context.Context, url string) error {
	s, err := Open(ctx, url, Options{Connections: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	var e endProof
	for {
		r, err := s.eval(ctx, installScript, nil, e.nonce, e.epoch)
		if err != nil {
			return fmt.Errorf("install: %w", err)
		}
		switch r.verdict() {
		case "installed":
			return nil
		case "schema":
			return fmt.Errorf("install: the marker in Redis is of schema %s, "+
				"which this program does not know: use the newer program", text(r[1]))
		}
		if e, _, err = s.announce(ctx, ""); err == nil {
			err = s.endAll(ctx, e, marks.SessionID{})
		}
		if err != nil {
			return fmt.Errorf("install: nothing was changed: %w", err)
		}
	}
}
