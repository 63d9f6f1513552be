package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/marks"
)

// statusTimeout bounds the query of one store.
const statusTimeout = 10 * time.Second

// storeStatus is the status of one store. Tokens are strings in JSON, since a JSON number would
// lose digits.
type storeStatus struct {
	Store string       `json:"store"`
	Ready bool         `json:"ready"`
	Error string       `json:"error,omitempty"`
	Marks []marks.Mark `json:"marks"`
}

// status prints every mark of every configured store. It fails when one of them cannot be read.
func (p *program) status(ctx context.Context, c *config, a cli.Arguments) error {
	if !a.KnownOutput() {
		return cli.Mistake(fmt.Sprintf("-o takes table or json, not %q", a.Output))
	}
	var all []storeStatus
	failed := false
	for _, proto := range c.configured() {
		s := queryStatus(ctx, c, proto)
		failed = failed || !s.Ready
		all = append(all, s)
	}
	if err := p.printStatus(all, a.Output); err != nil {
		return err
	}
	if failed {
		return errors.New("not every store could be read")
	}
	return nil
}

func queryStatus(ctx context.Context, c *config, proto protocol) storeStatus {
	s := storeStatus{Store: proto.name, Marks: []marks.Mark{}}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	db, err := proto.open(ctx, c)
	if err == nil {
		defer db.Close()
		var marks []marks.Mark
		if marks, err = db.Marks(ctx); len(marks) > 0 {
			s.Marks = marks
		}
	}
	if err != nil {
		s.Error = c.scrub(err.Error())
	}
	s.Ready = err == nil
	return s
}

func (p *program) printStatus(all []storeStatus, format string) error {
	if format == "json" {
		e := json.NewEncoder(p.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STORE\tRESOURCE\tTOKEN\tHOLDER\tSINCE\tSESSIONS\tISSUER\tCONFIRMED")
	for _, s := range all {
		if s.Error != "" {
			fmt.Fprintf(w, "%s\tnot ready: %s\n", s.Store, s.Error)
		}
		for _, m := range s.Marks {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%t\n", s.Store, m.Resource, m.Token, m.Holder,
				m.Raised.UTC().Format(time.RFC3339), m.Sessions, m.Issuer, m.Confirmed)
		}
	}
	return w.Flush()
}
