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
