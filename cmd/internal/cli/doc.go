// Package cli runs the command lines of guard and leader. Cobra has the commands, their flags, the
// help and the completion; this package adds exit codes, the settings in the help and the streams
// that tests replace.
//
//	root := &cobra.Command{Use: "guard", Short: "refuse writes of deposed leaders"}
//	root.AddCommand(&cobra.Command{Use: "health", Args: cobra.NoArgs, RunE: health})
//	p := cli.Program{Streams: streams, Root: root, Settings: &config{}, ExitCodes: "0 done\n"}
//	os.Exit(p.Main(ctx, os.Args[1:]))
//
// Every error before RunE is one of usage, and so is a Mistake that RunE returns. A RunE loads the
// settings that it uses before it does anything else.
package cli
