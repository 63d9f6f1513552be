package cli_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
)

// output runs a subcommand that prints something.
func output(t *testing.T, args ...string) string {
	t.Helper()
	p := newTrial(nil)
	if code := p.Main(t.Context(), args); code != cli.Done {
		t.Fatalf("tool %q: code %d, %s", args, code, &p.log)
	}
	return p.out.String()
}

// Bash itself is asked what it would offer.
func TestBashCompletesCommandsAndTheirFlags(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	script := output(t, "completion", "bash")
	for line, want := range map[string]string{
		"":           "do undo version completion manual",
		"un":         "undo",
		"do ":        "list --loud",
		"do --":      "--loud",
		"do it --l":  "--loud",
		"do list -":  "-o",
		"do -- --l":  "",
		"undo ":      "",
		"nothing un": "undo",
	} {
		words := append(strings.Fields(line), "")
		if line != "" && !strings.HasSuffix(line, " ") {
			words = words[:len(words)-1]
		}
		c := exec.CommandContext(t.Context(), bash, append([]string{"-c", script +
			`COMP_WORDS=(tool "$@") COMP_CWORD=$#; _tool; echo "${COMPREPLY[@]}"`, "bash"}, words...)...)
		out, err := c.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("tool %s: %q, %v, want %q", line, got, err, want)
		}
	}
}

func TestZshAndFishGetTheSameTable(t *testing.T) {
	for shell, want := range map[string][]string{
		"zsh": {"#compdef tool\n", "' do list '*) next=('-o:table or json')", "' do '*) " +
			"next=('list:list things' '--loud:with a sound')",
			"*) next=('do:do a thing' 'undo:undo the last thing' 'version:"},
		"fish": {"complete -c tool -n '__fish_use_subcommand' -f -a do -d 'do a thing'\n",
			"complete -c tool -n '__fish_seen_subcommand_from do; and not __fish_seen_subcommand_from " +
				"list' -l loud -d 'with a sound'\n",
			"complete -c tool -n '__fish_seen_subcommand_from do; and __fish_seen_subcommand_from list' " +
				"-r -s o -d 'table or json'\n"},
	} {
		script := output(t, "completion", shell)
		for _, part := range want {
			if !strings.Contains(script, part) {
				t.Errorf("%s: no %s in\n%s", shell, part, script)
			}
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s", shell)
			continue
		}
		c := exec.CommandContext(t.Context(), program, "-n", "/dev/stdin")
		c.Stdin = strings.NewReader(script)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s does not take it: %v: %s", shell, err, out)
		}
	}
	p := newTrial(nil)
	if code := p.Main(t.Context(), []string{"completion", "csh"}); code != cli.Usage {
		t.Errorf("csh: code %d", code)
	}
}

// The page has each subcommand, its flags, the settings and the exit codes, and no line that man
// would take for a request of its own.
func TestTheManualHasTheHelpPages(t *testing.T) {
	page := output(t, "manual")
	for _, part := range []string{
		".TH TOOL 1 \"\" Ringfence \"User commands\"\n.SH NAME\ntool \\- does things\n",
		".SS tool do THING\n.nf\nDo a thing.\n\nA thing is done once.\n\n  \\-\\-loud            with " +
			"a sound\n.fi\n",
		".SS tool do list [\\-o table|json]\n", ".SH ENVIRONMENT\n.nf\n  T_NAME (not set by default)\n " +
			"     who this is\n",
		".SH EXIT STATUS\n.nf\nExit codes: 0 done.\n",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q in\n%s", part, page)
		}
	}
	p := newTrial(func(p *trial) {
		p.Commands[2].Summary = "undo"
		p.Commands[2].More = ".so /etc/passwd\n'x\\\n"
	})
	p.Main(t.Context(), []string{"manual"})
	if !strings.Contains(p.out.String(), "Undo.\n\n\\&.so /etc/passwd\n\\&'x\\e\n") {
		t.Errorf("it has requests:\n%s", &p.out)
	}
}
