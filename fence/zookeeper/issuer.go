package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// errNotIssuer: another program wrote the issuer's znode.
var errNotIssuer = errors.New("not an issuer")

const uuidLength = 36

// identity is the issuer, and what shows whether it has changed: the version, which rises when the
// issuer is renewed, and a watch, because a znode that is created again starts at version 0.
type identity struct {
	issuer  fence.Issuer
	version int32
	watch   <-chan zk.Event
}

// readIssuer reads the ensemble's identity. If there is none, it creates one; of several clients,
// the first one wins. A wiped ensemble starts counting again and is another issuer, so callers read
// the identity each time.
func readIssuer(ctx context.Context, s *ensemble.Session) (fence.Issuer, error) {
	is, err := issuerFrom(ctx, s,
		func(ctx context.Context, at string) (ensemble.Node, <-chan zk.Event, error) {
			n, err := s.Get(ctx, at)
			return n, nil, err
		})
	return is.issuer, err
}

// watchIssuer is readIssuer for callers that cache the answer.
func watchIssuer(ctx context.Context, s *ensemble.Session) (identity, error) {
	return issuerFrom(ctx, s, s.WatchData)
}

// issuerFrom reads the issuer's znode with get, and creates it if it is missing.
func issuerFrom(
	ctx context.Context, s *ensemble.Session,
	get func(context.Context, string) (ensemble.Node, <-chan zk.Event, error),
) (identity, error) {
	at := issuerPath(s.Client)
	for {
		n, watch, err := get(ctx, at)
		switch {
		case err == nil:
			issuer, err := parseIssuer(at, n.Data)
			return identity{issuer, n.Stat.Version, watch}, err
		case !errors.Is(err, zk.ErrNoNode):
			return identity{}, s.Client.Explain(at, err)
		}
		if err := makeIssuer(ctx, s, at); err != nil {
			return identity{}, err
		}
	}
}

// makeIssuer also succeeds if somebody else was faster, or if an earlier try had no reply.
func makeIssuer(ctx context.Context, s *ensemble.Session, at string) error {
	if err := s.Ensure(ctx, path.Dir(at)); err != nil {
		return err
	}
	id := []byte(newUUID())
	_, err := ensemble.Retry(ctx, s, func(conn *zk.Conn) (string, error) {
		return conn.Create(at, id, zk.FlagPersistent, s.ACL)
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return nil // the caller reads again; the parent may have been deleted
	}
	return s.Client.Explain(at, err)
}

// Issuer implements elector.Observer.
func (c *Coordinator) Issuer(ctx context.Context) (fence.Issuer, error) {
	return ensemble.Ask(ctx, c.client, readIssuer)
}

// RenewIssuer implements elector.IssuerRenewer. It gives the ensemble a new issuer, as if it had
// been built anew. An operator needs it after the ensemble was restored from a backup, because its
// counter then issues numbers twice. Earlier claims keep the old issuer, and an operator adopts
// each resource. A database session carries only a number, so stop all leaders first. After
// ErrUnreachable the issuer may have been renewed; call RenewIssuer again.
func (c *Coordinator) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	at, id := issuerPath(c.client), []byte(newUUID())
	return ensemble.Ask(ctx, c.client,
		func(ctx context.Context, s *ensemble.Session) (fence.Issuer, error) {
			if _, err := readIssuer(ctx, s); err != nil { // must not overwrite another program's znode
				return "", err
			}
			if _, err := ensemble.Retry(ctx, s, func(conn *zk.Conn) (*zk.Stat, error) {
				return conn.Set(at, id, -1)
			}); err != nil {
				return "", c.client.Explain(at, err)
			}
			return parseIssuer(at, id)
		})
}

func newUUID() string {
	g := []byte(newGUID())
	g[12], g[16] = '4', "89ab"[g[16]%4] // version 4, variant 1
	return fmt.Sprintf("%s-%s-%s-%s-%s", g[:8], g[8:12], g[12:16], g[16:20], g[20:])
}

func parseIssuer(at string, data []byte) (fence.Issuer, error) {
	if len(data) != uuidLength {
		return "", fmt.Errorf("%w: znode %s holds %d bytes, not a UUID: "+
			"does another program use this path?", errNotIssuer, at, len(data))
	}
	for _, c := range data {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && c != '-' {
			return "", fmt.Errorf("%w: znode %s holds something other than a UUID: "+
				"does another program use this path?", errNotIssuer, at)
		}
	}
	return fence.Issuer("zk:" + string(data)), nil
}
