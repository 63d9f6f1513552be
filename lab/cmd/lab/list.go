package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/ringfence/ringfence/lab/scenario"
)

// list shows the catalogue.
func (p program) list(_ context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("list", flag.ContinueOnError)
	as := format(flags)
	names, err := p.parse(flags, args)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: list takes no names", errUsage)
	}
	if err != nil {
		return exitUnknown, err
	}
	if *as == "json" {
		return exitValid, p.json(scenario.Catalogue)
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tROW\tWHAT HAPPENS")
	for _, s := range scenario.Catalogue {
		about := s.About
		for _, e := range scenario.AllElections {
			if why := s.NotOn[e]; why != "" {
				about += fmt.Sprintf(" (Not with --coordinator %s: %s.)", e, why)
			}
		}
		if path := s.Path(); path != "" {
			about += " (With --path " + path + ".)"
		}
		if s.Topology.Cluster == scenario.Patroni {
			about += " (With lab run patroni, or its name.)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, strings.Trim(fmt.Sprint(s.Rows), "[]"), about)
	}
	fmt.Fprintln(w, "\nCONTROL\tON\tSEEDED BUG")
	for _, c := range scenario.Controls {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Name, c.Scenario, c.Bug)
	}
	return exitValid, w.Flush()
}
