package system

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// NewEtcd returns a client that prints nothing.
func NewEtcd(ctx context.Context, members []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: members, Context: ctx, Logger: zap.NewNop()})
}

// ReplaceEtcdMember removes the member with a peer URL from a cluster, through the others, and adds
// an empty one in its place. It tries again while the cluster refuses: it takes no member for some
// seconds after another one was lost.
func ReplaceEtcdMember(ctx context.Context, others []string, peerURL string) error {
	c, err := NewEtcd(ctx, others)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Members {
		if slices.Contains(m.PeerURLs, peerURL) {
			if _, err := c.MemberRemove(ctx, m.ID); err != nil {
				return fmt.Errorf("remove %s: %w", m.Name, err)
			}
		}
	}
	for {
		_, err := c.MemberAdd(ctx, []string{peerURL})
		if err == nil {
			return nil
		}
		if Sleep(ctx, lookAgain) != nil {
			return fmt.Errorf("add a member: %w", err)
		}
	}
}
