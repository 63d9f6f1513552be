package inject

import (
	"context"
	"errors"
	"slices"

	"github.com/ringfence/ringfence/lab/system"
)

func (r *Injector) cluster(do func(system.Cluster) error) error {
	c, ok := r.sys.(system.Cluster)
	if !ok {
		return errors.New("this injector has no Postgres of several servers")
	}
	return do(c)
}

func (r *Injector) primary(ctx context.Context) (name string, err error) {
	err = r.cluster(func(c system.Cluster) error {
		name, err = c.Primary(ctx)
		return err
	})
	return name, err
}

// makeOther makes another server than the primary the primary.
func (r *Injector) makeOther(ctx context.Context) error {
	now, err := r.primary(ctx)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(r.Topology.PostgresNames(), func(n string) bool { return n == now })
	return r.cluster(func(c system.Cluster) error { return c.MakePrimary(ctx, others[0]) })
}
