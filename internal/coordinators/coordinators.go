// Package coordinators opens the coordinator that a URL names. Both programs take the known
// coordinators from the table Known; a new one is an entry there, and nothing else in them names
// it.
//
//	c, err := coordinators.All.Open(ctx, cfg.Coordinator, coordinators.Options{Logger: log})
//
// No package registers itself, so the table is complete.
package coordinators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/settings"
)

// Options are the options of every coordinator.
type Options struct {
	SessionTimeout time.Duration // 0: the coordinator's own default
	Logger         *slog.Logger
}

// Open connects to the coordinator at a URL. Its error may contain the URL's password.
type Open func(ctx context.Context, url string, o Options) (documents.Coordinator, error)

// Coordinator is what both programs know of a kind of coordinator.
type Coordinator struct {
	Schemes []string // of its URL
	Form    string   // of its URL, for help texts
	Open    Open
	// Installer prepares it, if it has a schema.
	Installer *Installer
}

// Known lists every coordinator. A new one is an entry here.
var Known = []Coordinator{
	{
		Schemes: []string{"zk", "zks"}, Form: "zk://host1:2181,host2:2181/root (zks:// with TLS)",
		Open: openZooKeeper,
	},
	{
		Schemes: []string{"etcd", "etcds"}, Form: "etcd://host1:2379,host2:2379/prefix (etcds:// with " +
			"TLS)", Open: openEtcd,
	},
	{
		Schemes: []string{"postgres", "postgresql"}, Form: "postgres://user:password@host:5432/database",
		Open:      openPostgres,
		Installer: &Installer{postgres.Install, postgres.InstallSQL},
	},
}

// Table maps URL schemes to coordinators.
type Table map[string]Open

// All has every coordinator, and Installers those that an operator has to prepare, by scheme. Forms
// says in help texts what their URLs look like.
var All, Installers, Forms = tables()

func tables() (all Table, installers map[string]Installer, forms string) {
	all, installers = Table{}, map[string]Installer{}
	var each []string
	for _, c := range Known {
		each = append(each, c.Form)
		for _, scheme := range c.Schemes {
			all[scheme] = c.Open
			if c.Installer != nil {
				installers[scheme] = *c.Installer
			}
		}
	}
	return all, installers, strings.Join(each, ",\n\t")
}

func openZooKeeper(ctx context.Context, url string, o Options) (documents.Coordinator, error) {
	return opened(zookeeper.Open(ctx, url, zookeeper.Options(o)))
}

func openEtcd(ctx context.Context, url string, o Options) (documents.Coordinator, error) {
	return opened(etcd.Open(ctx, url, etcd.Options(o)))
}

func openPostgres(ctx context.Context, url string, o Options) (documents.Coordinator, error) {
	return opened(postgres.Open(ctx, url, postgres.Options(o)))
}

// opened keeps a nil pointer out of the interface, which would not be nil then.
func opened[C documents.Coordinator](c C, err error) (documents.Coordinator, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Installer prepares a coordinator that has a schema.
type Installer struct {
	// Install prepares the coordinator at a URL, whose role must be allowed to, for these roles.
	Install func(ctx context.Context, url string, roles ...string) error
	// Script returns what Install runs.
	Script func(roles ...string) string
}

// Schemes returns the known schemes, sorted.
func (t Table) Schemes() []string { return slices.Sorted(maps.Keys(t)) }

// Open opens the coordinator at u, which the caller has to close. Its error contains no secret. For
// an unknown scheme it names the known ones.
func (t Table) Open(ctx context.Context, u settings.URL, o Options) (documents.Coordinator, error) {
	open, known := t[u.Scheme()]
	if !known {
		known := strings.Join(t.Schemes(), "://, ") + "://"
		return nil, fmt.Errorf("there is no coordinator %s://; there is %s", u.Scheme(), known)
	}
	c, err := open(ctx, u.Reveal(), o)
	if err != nil {
		return nil, errors.New(u.Scrub(err.Error()))
	}
	return c, nil
}
