// Package cli implements the command line of guard and leader: subcommands with arguments and
// flags, help, usage errors, settings and exit codes.
//
//	p := cli.Program[*config]{
//		Streams: cli.Streams{Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
//		Name:    "guard",
//		Load:    load,
//		Commands: []cli.Command[*config]{
//			{
//				Name: "status", Arguments: "[-o table|json]", Output: true, Run: status,
//				Summary: "print every mark",
//			},
//		},
//		Help: cli.Help{About: "guard refuses writes.", Settings: &config{}, ExitCodes: "0 done\n"},
//	}
//	os.Exit(p.Main(ctx, os.Args[1:]))
//
// Main checks the arguments, then the settings, and reports every problem with the settings at
// once. Only then the subcommand runs.
package cli
