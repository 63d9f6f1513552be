package main

const exitCodes = `Exit codes:
  0    done
  1    error; for status and resign also: nobody leads; for task also: the task is stopped
  2    wrong usage, settings or task file
  3    leadership was lost or the token is stale. (task stands for election again instead, as long
       as that can help)
run, and submit with --wait, exit with the command's code: 128 + n when signal n ended it, 126 or 127
when it could not be run or was not found. Their own codes are 115 for 1, 116 for 2 and 117 for 3,
after which the command was stopped. run exits with 128 + n, too, when signal n came before the
command; so does task, and the next copy continues.
`

const runHelp = `The command gets RINGFENCE_RESOURCE, RINGFENCE_TOKEN and RINGFENCE_HOLDER, and
PGOPTIONS with the token added, so that every libpq program in it is fenced without changes;
LEADER_EXPORT changes that. With LEADER_CARRY it gets addresses in place of the token.

It starts once the mark is raised on every store. It runs in its own process group; leader forwards
TERM, INT, HUP, QUIT, USR1, USR2 and WINCH to the command itself, which ends its own processes. A
second TERM or INT, after the command was told to stop, kills the group. On a terminal it is in the
foreground; Ctrl-Z is off, since a stopped leader would hold the resource and do nothing. When the
command ends, leader ends what is left of its group and resigns, and the next candidate leads. What
is left after TERM gets TERM, too, and KILL after LEADER_GRACE.

With --again a lost term does not end leader. Once the command is gone, leader pauses (0.25 s, and up
to 10 s after terms that fail at once) and stands for election again. It still ends when the command
ends by itself, with the command's code; after TERM, with 128 + n; and with 115 for what standing again
cannot fix: a wrong setting, a refused login, a store that an operator has to prepare.
`
