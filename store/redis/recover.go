package redis

import (
	"context"
	"fmt"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

// ending is the proof that every connection that could be an old session was ended: the nonce was in the marker before
// that, on this run. A script accepts it only if the nonce is still there, so that a second loss is not missed.
type ending struct {
	nonce, run string
	epoch      string // for the marker, if it has to be made
}

// endAll ends every client connection of the server but the one it uses: clients, subscribers, other guards' control
// connections. It is the way out when the registry is lost and the sessions that were in it may still live.
func (s *Store) endAll(ctx context.Context, r fence.Resource) (ending, error) {
	e := ending{nonce: random(), epoch: random()}
	announced, err := s.run(ctx, endingScript, nil, string(r), e.nonce)
	if err != nil {
		return e, err
	}
	e.run = text(announced.list[1])
	var info *driver.StringCmd
	err = retry(ctx, func() error {
		// In one transaction: a client must not change from one type to the other in between.
		p := s.db.TxPipeline()
		info = p.Info(ctx, "server")
		p.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		p.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")
		_, err := p.Exec(ctx)
		return err
	})
	if err != nil {
		return e, Explain(err)
	}
	if runID(info.Val()) != e.run {
		return e, fmt.Errorf("%w: behind this address are several servers, or it was just restarted", errOtherRun)
	}
	return e, nil
}

// Install makes the marker in the database of url. It may be repeated: a marker that is there stays, and so do the
// marks. A missing marker is made after every client connection of the server was ended, because sessions of a marker
// that was lost may still live; it is then the operator's word that no older leader runs.
func Install(ctx context.Context, url string) error {
	s, err := Open(ctx, url, Options{Connections: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	var e ending
	for {
		r, err := s.run(ctx, installScript, nil, e.nonce, e.run, e.epoch)
		if err != nil {
			return fmt.Errorf("install: %w", err)
		}
		switch r.verdict {
		case "installed":
			return nil
		case "schema":
			return fmt.Errorf("install: the marker in Redis is of schema %s, which this program does not know: use the newer program", text(r.list[1]))
		}
		if e, err = s.endAll(ctx, ""); err != nil {
			return fmt.Errorf("install: nothing was changed: %w", err)
		}
	}
}
