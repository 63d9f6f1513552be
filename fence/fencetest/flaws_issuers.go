package fencetest

import (
	"context"
	"crypto/rand"

	"github.com/ringfence/ringfence/fence"
)

var flawsOfIssuers = []flaw{
	{
		name:   "makes up an issuer for every client",
		clause: "the issuer is one and stable", says: "clients see the issuers",
		opened: func(f *flawed) { f.own = fence.Issuer(rand.Text()) },
	},
	{
		name: "renews nothing", clause: "a renewed issuer is another one", says: "is no new one",
		renew: func(f *flawed, ctx context.Context) (fence.Issuer, error) {
			return f.Coordinator.Issuer(ctx)
		},
	},
	{
		name:   "returns the earlier issuer",
		clause: "a renewed issuer is another one", says: "is no new one",
		renew: func(f *flawed, ctx context.Context) (fence.Issuer, error) {
			before, _ := f.Coordinator.Issuer(ctx)
			_, err := f.Coordinator.RenewIssuer(ctx)
			return before, err
		},
	},
	{
		name:   "renews for itself alone",
		clause: "a renewed issuer is another one", says: "a client says",
		renew: func(f *flawed, _ context.Context) (fence.Issuer, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.own = fence.Issuer(rand.Text())
			return f.own, nil
		},
	},
	{
		name:   "comes back to an earlier issuer",
		clause: "a renewed issuer is another one", says: "is no new one",
		renew: func(f *flawed, _ context.Context) (fence.Issuer, error) {
			f.world.mu.Lock()
			defer f.world.mu.Unlock()
			f.world.renewed++
			f.world.issuer = []fence.Issuer{"one", "other"}[f.world.renewed%2]
			return f.world.issuer, nil
		},
	},
	{
		name:   "renews when it is closed",
		clause: "a closed client renews nothing", says: "a closed client renews",
		renew: func(f *flawed, ctx context.Context) (fence.Issuer, error) {
			return f.alive().RenewIssuer(ctx)
		},
	},
	{
		name:   "renews when it is closed, and returns an error",
		clause: "a closed client renews nothing", says: "the issuer was",
		renew: func(f *flawed, ctx context.Context) (fence.Issuer, error) {
			_, _ = f.alive().RenewIssuer(ctx)
			return f.Coordinator.Issuer(ctx)
		},
	},
}
