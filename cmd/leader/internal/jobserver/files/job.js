// The panel of one job: what is known of it, its attempts, what it writes, and what can be done with it.
import { byId, element, fill, lasting, messages, why } from './live.js';
import { ask } from './access.js';
import { action } from './act.js';
import { called } from './name.js';
import { forget, output, streams } from './output.js';

const again = 3_000; // ms until the next try after a lost connection

let open; // { group, id, stop, last, spec, reading, due, ahead } of the job that is shown

// show shows a job until it is called for another one, or for none.
export function show(group, id) {
  open?.stop.abort();
  if (open) stopReading(open);
  open = undefined;
  byId('job').hidden = !id;
  if (!id) return;
  open = { group, id, stop: new AbortController() };
  byId('job-title').textContent = `Job ${id}`;
  byId('job-close').href = `#${group}`;
  for (const part of ['job-facts', 'job-texts', 'job-actions']) byId(part).replaceChildren();
  fill('job-history', [], 'It is being read…');
  follow(open);
}

// take takes over what only the group knows of the job, and draws what changes with time.
export function take(state) {
  if (!open?.last) return;
  open.why = state.waiting.find((s) => s.id === open.id)?.why_waiting;
  draw(open);
}

async function follow(job) {
  const address = `v1/groups/${job.group}/jobs/${job.id}`;
  const signal = job.stop.signal;
  const spec = await ask(`${address}/spec`, signal).catch(() => undefined);
  if (spec?.ok) job.spec = await spec.json().catch(() => undefined);
  while (!signal.aborted) {
    const answer = await ask(`${address}/events`, signal).catch(() => undefined);
    if (answer && answer.status >= 400 && answer.status < 500) {
      const text = await why(answer);
      if (!signal.aborted) fill('job-history', [], text);
      return;
    }
    if (answer?.ok) await read(job, messages(answer.body));
    if (job.last && finished(job.last)) return;
    await new Promise((done) => { setTimeout(done, again); });
  }
}

async function read(job, all) {
  for (;;) {
    const next = await all.next().catch(() => ({ done: true })); // the connection is gone
    if (next.done || job !== open) return;
    if (next.value) update(job, JSON.parse(next.value));
  }
}

export const finished = (s) => ['done', 'failed', 'cancelled'].includes(s.state);

// update takes a status over.
function update(job, s) {
  if (!job.last) byId('job').scrollIntoView({ block: 'nearest' });
  job.last = s;
  const address = `v1/groups/${job.group}/jobs/${job.id}`;
  if (s.state === 'running' && job.reading === undefined) {
    job.reading = new AbortController();
    output(address, job.reading.signal);
  } else if (s.state !== 'running' && job.reading) {
    stopReading(job);
  }
  byId('job-texts').replaceChildren(...texts(s, job.spec).flatMap(([name, value]) => [
    element('h3', name), element('pre', value),
  ]));
  draw(job);
  if (s.every && job.due !== s.due) lookAhead(job, address, s.due);
}

// lookAhead reads the next rounds of a job, and what changes of the clocks do to them.
async function lookAhead(job, address, due) {
  job.due = due;
  const answer = await ask(address, job.stop.signal).catch(() => undefined);
  const found = answer?.ok && await answer.json().catch(() => undefined);
  if (!found) job.due = undefined; // the next status asks again
  if (!found || job !== open || job.due !== due) return;
  job.ahead = found.calendar;
  draw(job);
}

function stopReading(job) {
  job.reading?.abort();
  job.reading = undefined;
  forget();
}

function draw(job) {
  const s = job.last;
  byId('job-title').textContent = called(s);
  put('job-actions', offered(s).map(([verb, text]) => action(verb, s.id, text)));
  fill('job-history', attempts(s), 'No attempt has begun.');
  put('job-facts', facts(s, job).flatMap(([name, value]) => [element('dt', name), element('dd', value)]));
}

// put replaces what is in an element, unless it is the same.
function put(id, all) {
  const now = byId(id);
  if (now.children.length !== all.length || all.some((e, i) => !e.isEqualNode(now.children[i]))) now.replaceChildren(...all);
}

// offered are the verbs that a job takes in its state.
function offered(s) {
  if (s.state === 'done') return [];
  if (finished(s)) return [['retry', 'retry']];
  const all = [];
  if (s.state === 'waiting' && !s.paused && Date.parse(s.due) > Date.now()) all.push(['run', 'run now']);
  if (s.paused) all.push(['resume', 'resume']);
  else if (s.every || s.state === 'waiting') all.push(['pause', 'pause']);
  return [...all, ['cancel', 'cancel']];
}

// attempts are the rows of the history, the latest first.
function attempts(s) {
  const row = (a, end, note) => [
    [a.started ? new Date(a.started).toLocaleString() : '', 'n', a.started],
    [a.round ? `${a.attempt}, round ${a.round}` : a.attempt, 'n'], [a.worker ?? '', 'name'], [a.token ?? '', 'n'],
    [a.started && a.ended ? lasting(Date.parse(a.ended) - Date.parse(a.started)) : '', 'n'], end, [note ?? ''],
  ];
  const all = (s.history ?? []).map((a) => row(a, [a.outcome, a.outcome], a.error));
  if (s.state === 'running' || s.state === 'assigned') {
    const begun = s.state === 'running';
    all.push(row({
      attempt: s.attempt, round: s.every ? (s.rounds ?? 0) + 1 : 0, worker: s.worker_name,
      started: begun ? s.started : undefined, token: begun ? s.token : undefined,
    }, [s.state, s.state]));
  }
  return all.reverse();
}

function doing(s, why) {
  if (s.state !== 'waiting') return s.state;
  if (s.paused) return 'waiting: it is paused';
  if (Date.parse(s.due) > Date.now()) return `waiting until ${new Date(s.due).toLocaleString()}`;
  return why ? `waiting: ${why}` : 'waiting';
}

function facts(s, { spec, ahead, why: waits }) {
  const all = [['State', doing(s, waits)], ['ID', s.id], ['Kind', s.kind]];
  const more = (name, value) => { if (value) all.push([name, String(value)]); };
  more('Resource', s.resource);
  more('Submitted', new Date(s.submitted).toLocaleString());
  more('Retries', spec?.retries && `${spec.retries} at most, after ${s.failures ?? 0} failures of this round`);
  more('Workers lost', s.lost);
  more('Every', s.every && `${s.every}, round ${(s.rounds ?? 0) + 1}`);
  if (ahead && !finished(s)) {
    more('Next rounds', ahead.rounds?.map((at) => new Date(at).toLocaleString()).join(' · '));
    for (const change of ahead.clock_changes ?? []) more('Clocks', change.text);
  }
  more('Timeout', spec?.timeout);
  more('Priority', s.priority);
  more('Labels', s.labels?.join(', '));
  more('Unique key', s.unique);
  if (finished(s)) more('Ended', new Date(s.ended).toLocaleString());
  if (finished(s)) more('Kept until', new Date(s.expires).toLocaleString());
  return all;
}

function texts(s, spec) {
  const all = [];
  const more = (name, value) => { if (value) all.push([name, value]); };
  const payload = spec?.payload;
  if (s.kind === 'command' && payload?.argv) {
    more('Command', payload.argv.map(quoted).join(' '));
    more('Standard input', payload.stdin && JSON.stringify(payload.stdin));
  } else if (s.kind === 'task' && payload?.text) more('Task', payload.text);
  else if (payload !== undefined) more('Payload', JSON.stringify(payload, null, 2));
  if (s.error) more(finished(s) || s.state === 'waiting' ? 'Error' : 'Error before', s.error);
  for (const [name, text] of streams(s.result)) {
    more(finished(s) ? name : `${name} of the last attempt`, text);
  }
  return all;
}

// quoted writes an argument as a shell reads it.
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
