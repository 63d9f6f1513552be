package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// statusTimeout bounds the query of one store, and the list of the other databases of its server.
// All servers are asked at once.
const statusTimeout = 5 * time.Second

// maxTableRows is how many marks of a store a table has, unless --limit says otherwise.
const maxTableRows = 100

// storeStatus is the status of one store. Tokens are strings in JSON, since a JSON number would
// lose digits.
type storeStatus struct {
	Store    string       `json:"store"`
	Database string       `json:"database,omitempty"` // in Postgres
	Server   string       `json:"server,omitempty"`   // the primary, of several hosts or by Sentinels
	Ready    bool         `json:"ready"`
	Error    string       `json:"error,omitempty"`
	Note     string       `json:"note,omitempty"`
	Marks    []marks.Mark `json:"marks"`

	answered bool

	Found    int `json:"found"`    // marks that the patterns fit; Marks may have fewer
	Sessions int `json:"sessions"` // of all those marks
}

func (p *program) statusCommand() *cobra.Command {
	o := &p.options
	c := &cobra.Command{
		Use: "status [flags] [RESOURCE…]", Args: patterns,
		Short: "Print the marks in every store",
		Long: `Print the marks in every store: of every resource, or of those that are named, also by patterns such
as 'orders_*'. The holder is who raised the mark; it may have lost its term since. -o wide also
prints issuers.
`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.using(p.status, useStores, useCoordinator),
	}
	cli.Output(c, &o.output, "table", "wide", "json")
	c.Flags().IntVar(&o.limit, "limit", -1,
		"at most `N` marks of a store, 0 for all (default: 100 in a table, all in JSON)")
	c.Flag("limit").DefValue = ""
	o.several(c)
	return c
}

// status prints the marks of the stores: all, or those whose resource fits one of the patterns. It
// fails when a store cannot be read.
func (p *program) status(ctx context.Context, c *config, args []string) error {
	limit := p.options.limit
	if limit < 0 && p.options.output == "table" {
		limit = maxTableRows
	}
	o := p.options.selection
	stores, err := c.targets(ctx, o, guard.Databases.All)
	if len(stores) == 0 && err != nil {
		return err
	}
	all := c.statuses(ctx, stores, err == nil && !o.all && o.databases == "")
	failed := false
	for i := range all {
		all[i].keep(args, limit)
		failed = failed || !all[i].Ready
	}
	if err := p.printStatus(all, p.options.output); err != nil {
		return err
	}
	if failed {
		return errors.Join(err, errors.New("not every store could be read"))
	}
	return err
}

// statuses asks stores, each followed by the other databases of its server that have the schema, if
// others is true. A server that does not answer is not asked again.
func (c *config) statuses(ctx context.Context, stores []server, others bool) []storeStatus {
	each := make([][]storeStatus, len(stores))
	var asking sync.WaitGroup
	for i, t := range stores {
		asking.Go(func() {
			home := c.queryStatus(ctx, t)
			each[i] = []storeStatus{home}
			if !others || !home.answered {
				return
			}
			listing, cancel := context.WithTimeout(ctx, statusTimeout)
			defer cancel()
			for _, other := range t.others(listing, stores) { // one by one: the server may have little room
				each[i] = append(each[i], c.queryStatus(ctx, other))
			}
		})
	}
	asking.Wait()
	return slices.Concat(each...)
}

func (c *config) queryStatus(ctx context.Context, t server) storeStatus {
	s := storeStatus{Store: t.name(), Database: t.Database(), Marks: []marks.Mark{}}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var primary atomic.Value
	common := c.common()
	common.Primary = func(address string) { primary.Store(address) }
	db, err := t.Open(ctx, common, nil)
	if err == nil {
		defer db.Close()
		var marks []marks.Mark
		if marks, err = db.Marks(ctx); len(marks) > 0 {
			s.Marks = marks
		}
		if note := noteOf(db); note != nil && err == nil {
			s.Note, err = note(ctx)
		}
	}
	if s.answered = err == nil || ctx.Err() == nil; !s.answered {
		err = fmt.Errorf("it did not answer within %s", statusTimeout)
	}
	if err != nil {
		s.Error = t.scrub(err.Error())
	}
	s.Ready = err == nil
	s.Server, _ = primary.Load().(string)
	return s
}

// patterns checks the arguments of status.
func patterns(_ *cobra.Command, args []string) error {
	for _, pattern := range args {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%q is not a resource or a pattern such as 'orders_*'", pattern)
		}
	}
	return nil
}

// keep keeps the first marks that fit one of the patterns, or any if there is none. limit
// limits them, unless it is not above 0.
func (s *storeStatus) keep(patterns []string, limit int) {
	fits := func(m marks.Mark) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, _ := path.Match(pattern, string(m.Resource))
			return ok
		})
	}
	s.Marks = slices.DeleteFunc(s.Marks, func(m marks.Mark) bool { return !fits(m) })
	for _, m := range s.Marks {
		s.Sessions += m.Sessions
	}
	if s.Found = len(s.Marks); limit > 0 && s.Found > limit {
		s.Marks = s.Marks[:limit]
	}
}

func (p *program) printStatus(all []storeStatus, format string) error {
	if format == "json" {
		return p.printJSON(all)
	}
	if err := writeMarks(p.Stdout, all, format == "wide"); err != nil {
		return err
	}
	for i, s := range all {
		if s.Server != "" && (i == 0 || all[i-1].Store != s.Store) {
			fmt.Fprintf(p.Stdout, "%s: the primary is %s\n", s.Store, s.Server)
		}
		if s.Note != "" {
			fmt.Fprintf(p.Stdout, "%s: %s\n", s.place(), s.Note)
		}
		if s.Found > len(s.Marks) {
			fmt.Fprintf(p.Stdout, "%s: the first %d of %d marks, which have %d sessions in all; give "+
				"resources or patterns such as 'orders_*', or --limit 0 for all\n",
				s.place(), len(s.Marks), s.Found, s.Sessions)
		}
	}
	return nil
}

// place returns the store for people.
func (s *storeStatus) place() string {
	return strings.TrimSpace(s.Store + " " + cli.PrintableText(s.Database))
}

// writeMarks writes a table. Its last column says what is unusual about a mark.
func writeMarks(to io.Writer, all []storeStatus, wide bool) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(issuer string, columns ...string) {
		if wide {
			columns = slices.Insert(columns, 3, issuer)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(columns, "\t"), "\t"))
	}
	row("ISSUER", "STORE", "RESOURCE", "TOKEN", "HOLDER", "RAISED", "SESSIONS", "NOTE")
	for _, s := range all {
		store := s.Store
		if s.Database != "" {
			store += "/" + cli.Printable(s.Database)
		}
		if s.Error != "" {
			fmt.Fprintf(w, "%s\tnot ready: %s\n", store, s.Error)
		}
		for _, m := range s.Marks {
			row(string(m.Issuer), store, string(m.Resource), m.Token.String(), cli.Printable(m.Holder),
				m.Raised.UTC().Format("2006-01-02 15:04:05Z"), strconv.Itoa(m.Sessions), note(m))
		}
	}
	return w.Flush()
}

func note(m marks.Mark) string {
	switch {
	case m.RolledBack:
		return "the coordinator went back"
	case !m.Confirmed:
		return "unconfirmed"
	}
	return ""
}
