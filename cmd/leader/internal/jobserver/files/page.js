// The page of a group's jobs. Every message holds the whole state, and every table is built anew from
// it, so a page that is open for days does not grow. The address names what is shown: #GROUP, or
// #GROUP/JOB.
import { byId, element, fill, follow, lasting, plural, spans, why } from './live.js';
import { ask, headers, token } from './access.js';
import { action, actions, say } from './act.js';
import { show, take } from './job.js';
import { open } from './list.js';
import { called, has, named } from './name.js';
import { timeline } from './timeline.js';

const states = ['failed', 'running', 'assigned', 'waiting', 'cancelled', 'done'];
const most = 50; // rows of a table

let state, received, group, stop;

const now = () => Date.parse(state.now) + (performance.now() - received); // by the clock of the server
const age = (at) => [lasting(now() - Date.parse(at)), 'n', at];
const first = (text) => (text ?? '').split('\n')[0];

const job = (s) => named(group, s);
const wanted = (s) => has(s, byId('filter').value.trim());
const last = (s) => s.history?.at(-1);

// failing reports whether the last attempt of a job that has not ended has failed.
const failing = (s) => ['failed', 'lost'].includes(last(s)?.outcome);

// note is what matters about a job beside its state.
function note(s) {
  const all = [];
  if (s.why_waiting) all.push(s.why_waiting);
  if (s.paused && s.state !== 'waiting') all.push('paused after this attempt');
  if (s.every) all.push(`every ${s.every}, round ${(s.rounds ?? 0) + 1}`);
  if (s.labels && !s.why_waiting) all.push(`label ${s.labels.join(', ')}`);
  if (s.state === 'waiting' && s.failures) all.push(plural(s.failures, 'failure'));
  if (s.lost) all.push(`${plural(s.lost, 'worker')} lost`);
  if (s.error) all.push(first(s.error));
  return all.join('; ');
}

// next says how a job that is failing goes on.
function next(s) {
  if (s.state !== 'waiting') return `${s.state} again`;
  if (s.paused) return 'paused';
  const left = Date.parse(s.due) - now();
  const what = s.every && !s.failures && !s.lost ? 'next round' : 'again';
  return left > 0 ? `${what} in ${lasting(left)}` : 'waits again';
}

function header() {
  byId('counts').replaceChildren(...states.filter((s) => state.counts[s]).map((s) => {
    const e = element('span', '', s);
    e.append(element('b', state.counts[s].toLocaleString('en')), ` ${s}`);
    return e;
  }));
  const problem = byId('problem');
  problem.hidden = !state.error;
  problem.textContent = state.error ? `The jobs cannot be read: ${state.error}` : '';
  byId('about').textContent = state.read_at ? `read ${lasting(now() - Date.parse(state.read_at))} ago` : '';
}

function tables() {
  byId('workers-note').textContent = plural(state.workers.length, 'worker');
  fill('workers', state.workers.map((w) => [
    [w.name, 'name'], [`${w.jobs} of ${w.capacity}`, 'n'], [w.labels.join(', ')], [w.kinds.join(', ')], [w.id, 'n'],
    [[w.assigns && 'assigns jobs', w.stopping && 'stops'].filter(Boolean).join(', ')],
  ]), state.read_at ? 'There is none: nobody runs jobs.' : 'They are being read…');
  trouble();
  const active = shown('active-note', state.active, (state.counts.assigned ?? 0) + (state.counts.running ?? 0));
  fill('active', active.map((s) => [
    job(s), [s.worker_name, 'name'], [s.attempt, 'n'], [s.state === 'running' ? s.token : '', 'n'],
    s.state === 'running' ? age(s.started) : ['assigned'], [note(s)],
  ]), 'None.');
  fill('waiting', shown('waiting-note', state.waiting, state.counts.waiting ?? 0).map((s) => {
    const left = Date.parse(s.due) - now();
    return [job(s), [s.priority ?? 0, 'n'], age(s.submitted),
      s.paused ? ['paused'] : [left > 0 ? `in ${lasting(left)}` : 'now', 'n', s.due], [note(s)]];
  }), 'None.');
  fill('ended', shown('ended-note', state.ended, (state.counts.done ?? 0) + (state.counts.cancelled ?? 0)).map((s) => [
    job(s), [s.state, s.state], [s.worker_name, 'name'], [s.attempt ?? '', 'n'], age(s.ended),
    [s.started && s.token ? lasting(Date.parse(s.ended) - Date.parse(s.started)) : '', 'n'], [first(s.error), '', s.error],
  ]), 'None.');
}

// shown returns the rows of a table, and says how many they are, if that is not all.
function shown(id, all, count) {
  const rows = all.filter(wanted).slice(0, most);
  byId(id).textContent = count > rows.length ? `${rows.length} of ${count.toLocaleString('en')}` : '';
  return rows;
}

// trouble shows what has failed, and what goes on after a failure.
function trouble() {
  const going = [...state.active, ...state.waiting].filter((s) => failing(s));
  byId('trouble').hidden = state.failed.length + going.length === 0;
  const failed = shown('failed-note', [...state.failed, ...going], going.length + (state.counts.failed ?? 0));
  fill('failed', failed.map((s) => {
    const over = s.state === 'failed';
    const error = over ? s.error : last(s).error;
    return [job(s), over ? ['failed', 'failed'] : [next(s)], [over ? s.worker_name : last(s).worker, 'name'],
      [over ? s.attempt ?? '' : last(s).attempt, 'n'], age(over ? s.ended : last(s).ended), [first(error), 'error', error],
      [over ? action('retry', s.id, 'retry') : '']];
  }), 'None.');
}

// runs are the last runs of jobs.
function runs() {
  const run = (s, worker, from, to, how, attempt, token) => ({
    id: s.id, worker, from: Date.parse(from), to: typeof to === 'number' ? to : Date.parse(to), state: how,
    href: `#${group}/${s.id}`, title: `${called(s)}\n${s.id}\n${how}, attempt ${attempt}, token ${token}`,
  });
  const rounds = state.waiting.filter((s) => last(s)?.started).map((s) => {
    const a = last(s);
    return run(s, a.worker, a.started, a.ended, a.outcome, a.attempt, a.token);
  });
  const others = [...state.active, ...state.failed, ...state.ended].filter((s) => s.started && s.worker_name).map((s) => (
    run(s, s.worker_name, s.started, s.state === 'running' ? now() : s.ended, s.state, s.attempt, s.token)));
  return [...rounds, ...others].filter((r) => r.to >= r.from);
}

function render() {
  if (!state) return;
  header();
  tables();
  take(state);
  timeline(byId('timeline'), runs(), now(), span());
}

// login asks for the token, and shows nothing else.
function login(problem) {
  stop?.();
  stop = state = group = undefined;
  show();
  byId('link').textContent = byId('link').className = '';
  byId('name').textContent = '';
  byId('counts').replaceChildren();
  byId('shown').hidden = byId('choose').hidden = byId('filtering').hidden = true;
  byId('login').hidden = false;
  complain(problem);
  byId('token').focus();
}

function complain(problem) {
  byId('problem').textContent = problem ?? '';
  byId('problem').hidden = !problem;
}

// begin finds out whether the server lets this page in, and what it offers.
async function begin() {
  const answer = await ask('v1/groups').catch(() => undefined);
  if (answer?.status === 401) {
    const had = token.get();
    token.forget();
    login(had && 'This is not the token.');
    return;
  }
  if (!answer?.ok) {
    complain(answer ? await why(answer) : 'The server does not answer.');
    setTimeout(begin, 3_000);
    return;
  }
  const { groups } = await answer.json();
  byId('login').hidden = true;
  byId('choose').hidden = false;
  byId('forget').hidden = !token.get();
  complain();
  byId('groups').replaceChildren(...groups.map((g) => { const o = element('option'); o.value = g; return o; }));
  if (!location.hash && groups.length > 0) window.history.replaceState(null, '', `#${groups[0]}`);
  route();
}

// route shows what the address names.
function route() {
  if (byId('choose').hidden) return; // not let in yet
  const [name, id] = decodeURIComponent(location.hash.slice(1)).split('/');
  byId('shown').hidden = byId('filtering').hidden = !name;
  if (name !== group) {
    stop?.();
    [stop, state, group] = [undefined, undefined, name];
    byId('name').textContent = byId('group').value = name;
    document.title = name ? `${name}: Ringfence jobs` : 'Ringfence jobs';
    complain();
    say();
    byId('filter').value = '';
    actions(encodeURIComponent(name), render, route);
    open(name);
    if (name) stop = follow(`v1/groups/${encodeURIComponent(name)}/events`, headers(), update, refused);
  }
  if (name) show(encodeURIComponent(name), id && encodeURIComponent(id));
  else byId('group').focus();
}

function update(message) {
  if (!state) complain();
  state = message;
  received = performance.now();
  render();
}

function refused(status, problem) {
  if (status === 401) {
    begin();
    return;
  }
  byId('shown').hidden = byId('filtering').hidden = true;
  byId('link').textContent = byId('link').className = '';
  complain(problem);
}

byId('login').onsubmit = (event) => {
  event.preventDefault();
  token.set(byId('token').value);
  byId('token').value = '';
  begin();
};
byId('choose').onsubmit = (event) => {
  event.preventDefault();
  location.hash = byId('group').value;
};
byId('forget').onclick = () => { token.forget(); login(); };
byId('timeline').onpointerdown = (event) => { // the bar may be another element when the button is up
  const bar = event.target.closest('a');
  if (bar) location.hash = bar.getAttribute('href');
};
byId('filter').oninput = render;
const span = spans(3600, render);
window.addEventListener('hashchange', route);
window.addEventListener('resize', render);
setInterval(() => document.hidden || render(), 2_000); // ages, and bars that grow
begin();
