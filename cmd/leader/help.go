package main

const exitCodes = `Exit codes:
  0    done
  1    error; for status and resign also: nobody leads; for task also: the task is stopped
  2    wrong usage, settings or task file
  3    leadership was lost or the token is stale, and the command was stopped for it. (task stands for election again
       instead, for as long as that can help)
  else of run: the command's own; 128 + n when signal n ended it, or ended leader before the command was started.
       Of task: 128 + n when signal n ended it; the next copy goes on
`

const childGets = `The command gets RINGFENCE_RESOURCE, RINGFENCE_TOKEN and RINGFENCE_HOLDER, and PGOPTIONS with the token added, so that
every libpq program in it is fenced as it is. It is started once the mark is raised on every store. It runs in a process
group of its own; TERM, INT, HUP, QUIT, USR1, USR2 and WINCH are passed on to that group, and a second TERM or INT, once
it was told to stop, kills it. On a terminal it is in the foreground; Ctrl-Z is off, since a stopped leader would hold
the resource and do nothing. When it ends, what is left of its group is killed, and the next candidate is let in.
`

// more is what -h says of a subcommand besides its summary.
func (c command) more() string {
	switch {
	case c.name == "run":
		return childGets
	case c.name == "task":
		return taskForm
	case c.takes != takesResource:
		return taskNames
	}
	return ""
}
