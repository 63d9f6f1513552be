package zookeeper

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// warnOfAccess logs who else may change elections. Open calls it, so a client warns once, however
// many sessions it opens. Znodes keep the ACL with which they were created.
func warnOfAccess(ctx context.Context, c *ensemble.Client) {
	if c.User == "" {
		c.Log.Warn("anybody who reaches this ZooKeeper can depose leaders and make candidates; " +
			"with credentials in the URL, zk://user:password@..., only that user can change what is created")
		return
	}
	at, others, err := othersThanUser(ctx, c)
	switch {
	case err != nil:
		c.Log.Debug("who else may change the znodes could not be read", "error", err)
	case len(others) > 0:
		c.Log.Warn("others than the user of the ZooKeeper URL can depose leaders and make candidates, "+
			"for they may change a znode that was created before; "+
			"once every program has these credentials, "+
			"give this user alone the root and all below it",
			"zkCli.sh", fmt.Sprintf("addauth digest %s:PASSWORD; setAcl -R %s auth::cdrwa",
				c.User, c.Path),
			"znode", at, "others", others)
	}
}

// othersThanUser returns the first of the upper znodes that others may change, and who they are.
func othersThanUser(
	ctx context.Context, c *ensemble.Client,
) (at string, others []string, err error) {
	others, err = ensemble.Ask(ctx, c, func(
		ctx context.Context, s *ensemble.Session,
	) ([]string, error) {
		for _, at = range []string{c.Path, issuerPath(c), electionsPath(c)} {
			acl, err := s.GetACL(ctx, at)
			if err != nil && !ensemble.Denied(err) {
				return nil, err
			}
			if others := writers(acl, c.User); len(others) > 0 {
				return others, nil
			}
		}
		return nil, nil
	})
	return at, others, err
}

// writers lists the others who may do more than read, without the hash of a digest.
func writers(acl []zk.ACL, user string) (others []string) {
	const digest = "digest"
	for _, a := range acl {
		id := a.ID
		if a.Scheme == digest {
			id, _, _ = strings.Cut(id, ":")
		}
		if a.Perms&^zk.PermRead != 0 && (a.Scheme != digest || id != user) {
			others = append(others, a.Scheme+":"+id)
		}
	}
	return others
}
