package main

const workHelp = `Start as many workers as you like, on as many machines. They elect one among
themselves that assigns jobs; when it is gone, another one goes on. A worker runs each job as a term
of the job's resource: before the command starts, the mark is raised on every store of LEADER_STORES,
and the command gets the environment of leader run, with RINGFENCE_JOB and RINGFENCE_ATTEMPT. When a
worker is gone, its jobs are assigned to others; if it was only paused, stores refuse what it still
writes, and its results are not published.

  --capacity N   how many jobs this worker runs at once (default 4)
  --label L,...  labels that this worker has; a job that names labels goes to workers that have them
  --strategy S   how this worker chooses among workers while it assigns: least-loaded (default),
                 round-robin or random

TERM and INT make the worker stop: it gives back what has not begun, ends its commands (TERM, then
KILL after LEADER_GRACE) and gives these jobs back, too.
`

const submitHelp = `The command runs at least once: again after a failure, if --retries allows it, and
when its worker was gone before its end was published. Two jobs with the same resource never run at
once.

  --task FILE      run the task in FILE (leader task -h) in place of a command: its steps go on at its
                   checkpoint, whichever worker has the job. The job leads the task's resource. The
                   file is handed in, with the SQL files and the values of environment variables
                   that it names; its commands run in the worker's directory, and the journal is the
                   worker's. When a step has failed for good, the job has failed, too: leader task
                   resume FILE, then leader jobs GROUP retry ID
  --wait           wait for the end; print the command's output, and exit with its code. The job goes on
                   if this is interrupted
  --resource R     what the job leads while it runs (default: a resource of its own)
  --unique KEY     if an unfinished job of the group has this key, print its ID and hand in nothing
  --at TIME        not before: 2026-12-24T18:00:00Z, or a duration from now such as 10m
  --every SPEC     start again: 15m, or a cron expression in UTC such as '0 3 * * *'
  --priority N     0 to 9; a higher one is assigned first
  --retries N      how often it is tried again after a failure; --backoff D before the first time,
                   twice as long each time (default 1s)
  --timeout D      of one try
  --label L,...    labels that its worker must have
  --stdin JSON     what the command reads; --env NAME=value: more environment, may be repeated
  --keep D         how long its status is kept after the end (default 1h)
`

const jobsHelp = `--state lists only the jobs in one state: waiting, assigned, running, done, failed or
cancelled. workers lists who runs jobs, and who assigns them; show prints a job with its payload
and result; logs prints the last 16 KiB that the command, or those of a task, have written to each
stream, once the try has ended; cancel ends a job, a running one by TERM and KILL; retry makes a job wait again that has failed or was
cancelled.
`

const serveHelp = `The default address is 127.0.0.1:8480. A page at / shows workers and jobs; it offers the
GROUPs that are named here, and shows others by name. The API is for every group; GET /openapi.yaml
describes it.

Whoever may send requests can run commands on the workers. So on any other address than a loopback one,
LEADER_HTTP_TOKEN is required. Clients send it as Authorization: Bearer TOKEN; the page asks for it. There
is no TLS: put a proxy in front that has it.
`
