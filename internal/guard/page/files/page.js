// The status page of a guard. Every message holds the whole state, and every table is built anew
// from it, so a page that is open for days does not grow. Names come from clients: they are only
// ever written as text.
import { stairs } from './stairs.js';

const silence = 40_000; // ms without a message after which the connection counts as lost
const again = 3_000; // ms until the next try

let source, state, received, retry;

const byId = (id) => document.getElementById(id);

function element(name, text, className) {
  const e = document.createElement(name);
  e.textContent = text ?? '';
  if (className) e.className = className;
  return e;
}

// age is how long ago something was, by the clock of the guard.
function age(at) {
  const s = Math.max(0, Math.round((now() - Date.parse(at)) / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

const now = () => Date.parse(state.now) + (performance.now() - received);

// fill replaces the rows of a table. A row is a list of [text, class]; time is the title of an age.
function fill(id, rows, nothing) {
  const table = byId(id);
  const columns = [...table.tHead.rows[0].cells].map((c) => c.textContent);
  const body = rows.map((row) => {
    const tr = element('tr');
    tr.append(...row.map(([text, className, title], i) => {
      const td = element('td', '', className);
      td.append(element('span', text));
      td.dataset.column = columns[i];
      if (title) td.title = title;
      return td;
    }));
    return tr;
  });
  if (rows.length === 0) {
    const tr = element('tr');
    const td = element('td', nothing);
    td.colSpan = columns.length;
    tr.append(td);
    body.push(tr);
  }
  table.tBodies[0].replaceChildren(...body);
}

const several = () => state.stores.length > 1;
const crowded = (row) => new Set(state.stores.filter((s) => s.store === row.store).map((s) => s.database)).size > 1;
const placed = (row) => (row.database && crowded(row) ? `${row.store}/${row.database}` : row.store);
const named = (row) => (several() ? `${placed(row)} ${row.resource}` : row.resource);
const token = (t) => (t === '0' ? '' : t);
const plural = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;
const since = (at) => [age(at), 'n', at];

function header() {
  byId('guard').textContent = state.guard;
  document.title = `${state.guard}: Ringfence guard`;
  byId('stores').replaceChildren(...state.stores.map((s) => {
    const e = element('span');
    e.append(element('b', placed(s)), ' ');
    if (s.error) e.append(element('span', `cannot be read: ${s.error}`, 'bad'));
    else if (!s.read_at) e.append('is being read…');
    else e.append(`${plural(s.marks, 'resource')}, ${plural(s.sessions, 'session')} of all guards`);
    return e;
  }));
  byId('about').textContent = `running for ${age(state.started)}`;
}

function tables() {
  const marks = state.stores.reduce((n, s) => n + s.marks, 0);
  const read = state.stores.filter((s) => s.read_at).map(placed);
  byId('resources-note').textContent = marks > state.resources.length
    ? `the ${state.resources.length} that changed last, of ${marks.toLocaleString('en')}` : '';
  fill('resources', state.resources.map((r) => [
    [named(r)], [r.token, 'n'], [r.holder], since(r.raised_at), [read.includes(placed(r)) ? r.sessions : '', 'n'],
  ]), 'No term has raised a mark yet.');
  byId('refusals-note').textContent = 'by this guard; equal ones are one row';
  fill('refusals', state.refusals.map((r) => [
    since(r.at), [r.client || 'several clients'], [named(r)], [token(r.token), 'n'], [token(r.mark), 'n'],
    [r.reason.replaceAll('_', ' '), 'why', r.message], [r.times, 'n'],
  ]), 'None since this guard was started.');
  byId('sessions-note').textContent = state.open > state.sessions.length
    ? `${state.sessions.length} of ${plural(state.open, 'session')} of this guard`
    : `${plural(state.open, 'session')} of this guard`;
  fill('sessions', state.sessions.map((s) => [
    [s.client], [named(s)], [s.token, 'n'], since(s.since),
  ]), 'None.');
}

function span() {
  return Number(document.querySelector('[data-span][aria-pressed="true"]').dataset.span) * 1000;
}

function render() {
  if (!state) return;
  header();
  tables();
  stairs(byId('stairs'), state.resources.filter((r) => r.steps.length > 0), named, now(), span());
}

function link(text, className) {
  const e = byId('link');
  if (e.textContent !== text) e.textContent = text; // a screen reader says each change
  e.className = className;
}

function connect() {
  disconnect();
  source = new EventSource('events');
  watch();
  source.onmessage = (message) => {
    state = JSON.parse(message.data);
    received = performance.now();
    watch();
    link('live', 'live');
    render();
  };
  source.onerror = () => lost(); // also when the guard answers 503, after which a browser gives up
}

// watch has the page connect again if no message comes. A cut connection is silent.
function watch() {
  clearTimeout(retry);
  retry = setTimeout(lost, silence);
}

function lost() {
  disconnect();
  link(state ? 'connection lost, this is the last state' : 'no connection', 'lost');
  retry = setTimeout(connect, again);
}

function disconnect() {
  clearTimeout(retry);
  source?.close();
}

function choose(button) {
  for (const b of document.querySelectorAll('[data-span]')) {
    b.setAttribute('aria-pressed', b === button);
  }
  render();
}

for (const b of document.querySelectorAll('[data-span]')) b.onclick = () => choose(b);
choose(document.querySelector('[data-span="3600"]'));
// A page that nobody sees takes no connection: a browser has six for one host.
document.addEventListener('visibilitychange', () => (document.hidden ? disconnect() : connect()));
window.addEventListener('resize', render);
setInterval(() => document.hidden || render(), 5_000); // ages
connect();
