package election

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// ErrNotIssuer: another program wrote the issuer's znode.
var ErrNotIssuer = errors.New("not an issuer")

const uuidLength = 36

// ReadIssuer reads the ensemble's identity. If there is none, it creates one; of several clients,
// the first one wins. A wiped ensemble starts counting again and is another issuer, so callers read
// the identity each time.
func ReadIssuer(ctx context.Context, s *ensemble.Session) (fence.Issuer, error) {
	n, err := issuerNode(ctx, s, s.Get)
	if err != nil {
		return "", err
	}
	return parseIssuer(IssuerPath(s.Client().Root()), n.Data)
}

// Identity is the issuer, and what shows whether it has changed: the version, which rises when the
// issuer is renewed, and a watch, because a znode that is created again starts at version 0.
type Identity struct {
	Issuer  fence.Issuer
	Version int32
	watch   <-chan zk.Event
}

// ReadIdentity is ReadIssuer for callers that cache the answer.
func ReadIdentity(ctx context.Context, s *ensemble.Session) (Identity, error) {
	var watch <-chan zk.Event
	n, err := issuerNode(ctx, s, func(ctx context.Context, at string) (n ensemble.Node, err error) {
		n, watch, err = s.WatchData(ctx, at)
		return n, err
	})
	if err != nil {
		return Identity{}, err
	}
	issuer, err := parseIssuer(IssuerPath(s.Client().Root()), n.Data)
	if err != nil {
		return Identity{}, err
	}
	return Identity{issuer, n.Stat.Version, watch}, nil
}

// Changed reports that the watch has fired: the znode was set or deleted, or the connection broke.
func (i Identity) Changed() bool {
	select {
	case <-i.watch:
		return true
	default:
		return false
	}
}

// issuerNode reads the issuer's znode with get, and creates it if it is missing.
func issuerNode(
	ctx context.Context, s *ensemble.Session, get func(context.Context, string) (ensemble.Node, error),
) (ensemble.Node, error) {
	at := IssuerPath(s.Client().Root())
	for {
		n, err := get(ctx, at)
		if err == nil || !errors.Is(err, zk.ErrNoNode) {
			return n, s.Client().Explain(at, err)
		}
		if err := makeIssuer(ctx, s, at); err != nil {
			return ensemble.Node{}, err
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
		return conn.Create(at, id, zk.FlagPersistent, s.Client().ACL())
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return nil // the caller reads again; the parent may have been deleted
	}
	return s.Client().Explain(at, err)
}

// RenewIssuer gives the ensemble a new identity.
func RenewIssuer(ctx context.Context, c *ensemble.Client) (fence.Issuer, error) {
	at, id := IssuerPath(c.Root()), []byte(newUUID())
	return ensemble.Ask(ctx, c, func(ctx context.Context, s *ensemble.Session) (fence.Issuer, error) {
		if _, err := ReadIssuer(ctx, s); err != nil { // must not overwrite another program's znode
			return "", err
		}
		if _, err := ensemble.Retry(ctx, s, func(conn *zk.Conn) (*zk.Stat, error) {
			return conn.Set(at, id, -1)
		}); err != nil {
			return "", c.Explain(at, err)
		}
		return parseIssuer(at, id)
	})
}

func newUUID() string {
	g := []byte(NewGUID())
	g[12], g[16] = '4', "89ab"[g[16]%4] // version 4, variant 1
	return fmt.Sprintf("%s-%s-%s-%s-%s", g[:8], g[8:12], g[12:16], g[16:20], g[20:])
}

func parseIssuer(at string, data []byte) (fence.Issuer, error) {
	if len(data) != uuidLength {
		return "", fmt.Errorf("%w: znode %s holds %d bytes, not a UUID: "+
			"does another program use this path?", ErrNotIssuer, at, len(data))
	}
	for _, c := range data {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && c != '-' {
			return "", fmt.Errorf("%w: znode %s holds something other than a UUID: "+
				"does another program use this path?", ErrNotIssuer, at)
		}
	}
	return fence.Issuer("zk:" + string(data)), nil
}
