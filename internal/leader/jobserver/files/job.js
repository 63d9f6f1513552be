// The panel of one job: what is known of it, what has happened, and what it has written.
import { byId, element, fill, lasting, messages, why } from './live.js';
import { ask } from './access.js';

const again = 3_000; // ms until the next try after a lost connection

let open; // { address, stop, seen, spec } of the job that is shown

// show shows a job until it is called for another one, or for none.
export function show(group, id) {
  open?.stop.abort();
  open = undefined;
  byId('job').hidden = !id;
  if (!id) return;
  open = { group, id, stop: new AbortController(), seen: [], last: undefined };
  byId('job-title').textContent = `Job ${id}`;
  byId('job-close').href = `#${group}`;
  byId('job-facts').replaceChildren();
  byId('job-texts').replaceChildren();
  fill('job-history', [], 'It is being read…');
  follow(open);
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

// update takes a status over. What it says of the past begins the history, and each change goes on.
function update(job, s) {
  if (!job.last) job.seen = past(s);
  const text = doing(s);
  if (job.seen.at(-1)?.[1] !== text) job.seen.push([at(s), text]);
  job.seen = job.seen.slice(-100);
  job.last = s;
  fill('job-history', job.seen.map(([when, what]) => [
    [new Date(when).toLocaleTimeString(), 'n', new Date(when).toLocaleString()], [what],
  ]), '');
  byId('job-facts').replaceChildren(...facts(s, job.spec).flatMap(([name, value]) => [
    element('dt', name), element('dd', value),
  ]));
  byId('job-texts').replaceChildren(...texts(s, job.spec).flatMap(([name, value]) => [
    element('h3', name), element('pre', value),
  ]));
}

function past(s) {
  const all = [[s.submitted, 'submitted']];
  if (s.started && s.state !== 'running') all.push([s.started, `began, under token ${s.token}`]);
  return all;
}

// at is when a status came to be, as far as it says so.
function at(s) {
  if (finished(s)) return s.ended;
  if (s.state === 'running') return s.started;
  return s.attempt || s.failures ? new Date().toISOString() : s.submitted;
}

function doing(s) {
  const after = s.error ? ` after: ${s.error.split('\n')[0]}` : '';
  switch (s.state) {
    case 'waiting':
      return Date.parse(s.due) > Date.now()
        ? `waiting until ${new Date(s.due).toLocaleString()}${after}` : `waiting${after}`;
    case 'assigned': return `assigned to ${s.worker_name}, attempt ${s.attempt}`;
    case 'running': return `running at ${s.worker_name}, attempt ${s.attempt}, token ${s.token}`;
    case 'failed': return `failed: ${(s.error ?? '').split('\n')[0]}`;
    default: return s.state;
  }
}

function facts(s, spec) {
  const all = [['State', s.state], ['Kind', s.kind], ['Resource', s.resource]];
  const more = (name, value) => { if (value) all.push([name, String(value)]); };
  more('Worker', s.worker_name);
  more('Token', s.token);
  more('Attempt', s.attempt);
  more('Failures', s.failures && `${s.failures} of this round; tried again ${spec?.retries ?? 0} times at most`);
  more('Workers lost', s.lost);
  more('Every', s.every && `${s.every}, round ${(s.rounds ?? 0) + 1}`);
  more('Timeout', spec?.timeout);
  more('Priority', s.priority);
  more('Labels', s.labels?.join(', '));
  more('Unique key', s.unique);
  if (s.started && s.ended) more('Took', lasting(Date.parse(s.ended) - Date.parse(s.started)));
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
  const r = s.result;
  if (Number.isInteger(r?.code) && Object.keys(r).every((k) => ['code', 'stdout', 'stderr'].includes(k))) {
    more('Standard output', r.stdout);
    more('Standard error', r.stderr);
  } else if (r !== undefined) more('Result', JSON.stringify(r, null, 2));
  return all;
}

// quoted writes an argument as a shell reads it.
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
