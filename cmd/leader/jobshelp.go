package main

const workHelp = `Run jobs of GROUP, until interrupted; one of its workers assigns them.

Start as many workers as you like, on as many machines. They elect one among
themselves that assigns jobs; when it is gone, another one goes on. A worker runs each job as a term
of the job's resource: before the command starts, the mark is raised on every store of LEADER_STORES,
and the command gets the environment of leader run, with RINGFENCE_JOB and RINGFENCE_ATTEMPT. When a
worker is gone, its jobs are assigned to others; if it was only paused, stores refuse what it still
writes, and its results are not published.

TERM and INT make the worker stop: it takes no more jobs, gives back what has not begun, and lets its
commands end within LEADER_DRAIN_TIMEOUT. It ends those that are left (TERM, then KILL after
LEADER_GRACE) and gives their jobs back, too. A second signal ends them at once.
`

const submitHelp = `
The command runs at least once: again after a failure, if --retries allows it, and
when its worker was gone before its end was published. Two jobs with the same resource never run at
once.

--every takes a duration, or the five fields of crontab(5): minute, hour, day of month, month, day of week.
They are in UTC, or in the zone in front of them. What changes of the clocks do to rounds is logged.
`

const jobsHelp = `Print the jobs of GROUP, its workers, or one job; cancel one, try it again, run it now, pause it.

workers lists who runs jobs, and who assigns them. show prints a job with a line for each
attempt; with -o json also its payload and result. logs prints the end of what the command, or those of a
task, have written to each stream: so far, if it runs, else in the last attempt. cancel ends a job, a
running one by TERM and KILL. retry makes a job wait again that has failed or was cancelled. run has a job
that waits for its time run now; --every keeps its times. pause keeps a job, or the next rounds of one that
repeats, from being assigned, and resume ends that.
`

const serveHelp = `Serve the HTTP API of jobs, and a page that shows them, until interrupted.

A page at / shows workers and jobs; it offers the GROUPs that are named here, and shows others by
name. The API is for every group; GET /openapi.yaml describes it.

Whoever may send requests can run commands on the workers. So on any other address than a loopback one,
LEADER_HTTP_TOKEN is required. Clients send it as Authorization: Bearer TOKEN; the page asks for it. There
is no TLS: put a proxy in front that has it.
`
