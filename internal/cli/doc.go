// Package cli is the command line of both programs: subcommands with arguments and flags, help,
// mistakes of usage, settings and exit codes.
//
//	p := cli.Program[*config]{
//		Streams: cli.Streams{Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
//		Name:    "guard",
//		Load:    load,
//		Commands: []cli.Command[*config]{
//			{Name: "status", Arguments: "[-o table|json]", Summary: "print every mark", Output: true, Run: status},
//		},
//		Help: cli.Help{About: "guard refuses writes.", Settings: &config{}, ExitCodes: "0 done\n"},
//	}
//	os.Exit(p.Main(ctx, os.Args[1:]))
//
// The arguments are checked first, then the settings, each with every problem that there is; only
// then the subcommand runs.
package cli
