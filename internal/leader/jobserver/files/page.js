// The page of a group's jobs. Every message holds the whole state, and every table is built anew from
// it, so a page that is open for days does not grow. The address names what is shown: #GROUP, or
// #GROUP/JOB.
import { byId, element, fill, follow, lasting, plural, spans, why } from './live.js';
import { ask, headers, token } from './access.js';
import { show } from './job.js';
import { open } from './list.js';
import { timeline } from './timeline.js';

const states = ['waiting', 'assigned', 'running', 'done', 'failed', 'cancelled'];
const rows = 50; // of a table

let state, received, group, stop;

const now = () => Date.parse(state.now) + (performance.now() - received); // by the clock of the server
const age = (at) => [lasting(now() - Date.parse(at)), 'n', at];
const first = (text) => (text ?? '').split('\n')[0];

function job(s) {
  const e = element('a', s.id);
  e.href = `#${group}/${s.id}`;
  return [e, 'n'];
}

// note is what matters about a job beside its state.
function note(s) {
  const all = [];
  if (s.every) all.push(`every ${s.every}, round ${(s.rounds ?? 0) + 1}`);
  if (s.labels) all.push(`for ${s.labels.join(', ')}`);
  if (s.state === 'waiting' && !state.workers.some((w) => suits(w, s))) all.push('no worker for it');
  if (s.state === 'waiting' && s.failures) all.push(plural(s.failures, 'failure'));
  if (s.lost) all.push(`${plural(s.lost, 'worker')} lost`);
  if (s.error) all.push(first(s.error));
  return all.join('; ');
}

const suits = (w, s) => w.kinds.includes(s.kind) && (s.labels ?? []).every((l) => w.labels.includes(l));

// counted says how many rows a table shows, if that is not all.
function counted(id, shown, all) {
  byId(id).textContent = all > shown ? `${shown} of ${all.toLocaleString('en')}` : '';
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
  counted('active-note', state.active.length, (state.counts.assigned ?? 0) + (state.counts.running ?? 0));
  fill('active', state.active.map((s) => [
    job(s), [s.kind, 'name'], [s.worker_name, 'name'], [s.attempt, 'n'], [s.state === 'running' ? s.token : '', 'n'],
    s.state === 'running' ? age(s.started) : ['assigned'], [note(s)],
  ]), 'None.');
  const waiting = state.waiting.slice(0, rows);
  counted('waiting-note', waiting.length, state.counts.waiting ?? 0);
  fill('waiting', waiting.map((s) => {
    const left = Date.parse(s.due) - now();
    return [job(s), [s.kind, 'name'], [s.priority ?? 0, 'n'], age(s.submitted),
      [left > 0 ? `in ${lasting(left)}` : 'now', 'n', s.due], [note(s)]];
  }), 'None.');
  const ended = state.ended.slice(0, rows);
  counted('ended-note', ended.length, states.slice(3).reduce((n, s) => n + (state.counts[s] ?? 0), 0));
  fill('ended', ended.map((s) => [
    job(s), [s.kind, 'name'], [s.state, s.state], [s.worker_name, 'name'], [s.attempt ?? '', 'n'], age(s.ended),
    [s.started && s.token ? lasting(Date.parse(s.ended) - Date.parse(s.started)) : '', 'n'], [first(s.error), '', s.error],
  ]), 'None.');
}

// runs are the last runs of jobs.
function runs() {
  return [...state.active, ...state.ended].filter((s) => s.started && s.worker_name).map((s) => {
    const to = s.state === 'running' ? now() : Date.parse(s.ended);
    return {
      id: s.id, worker: s.worker_name, from: Date.parse(s.started), to, state: s.state, href: `#${group}/${s.id}`,
      title: `${s.id}\n${s.kind}, ${s.state}, attempt ${s.attempt}, token ${s.token}`,
    };
  }).filter((r) => r.to >= r.from);
}

function render() {
  if (!state) return;
  header();
  tables();
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
  byId('shown').hidden = byId('choose').hidden = true;
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
  byId('shown').hidden = !name;
  if (name !== group) {
    stop?.();
    [stop, state, group] = [undefined, undefined, name];
    byId('name').textContent = byId('group').value = name;
    document.title = name ? `${name}: Ringfence jobs` : 'Ringfence jobs';
    complain();
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
  byId('shown').hidden = true;
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
const span = spans(3600, render);
window.addEventListener('hashchange', route);
window.addEventListener('resize', render);
setInterval(() => document.hidden || render(), 2_000); // ages, and bars that grow
begin();
