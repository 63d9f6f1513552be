// The status page of a guard. Every message holds the whole state, and every table is built anew
// from it, so a page that is open for days does not grow.
import { byId, element, fill, follow, lasting, plural, spans } from './live.js';
import { stairs } from './stairs.js';

let state, received;

const now = () => Date.parse(state.now) + (performance.now() - received); // by the clock of the guard
const age = (at) => lasting(now() - Date.parse(at));
const several = () => state.stores.length > 1;
const crowded = (row) => new Set(state.stores.filter((s) => s.store === row.store).map((s) => s.database)).size > 1;
const placed = (row) => (row.database && crowded(row) ? `${row.store}/${row.database}` : row.store);
const named = (row) => (several() ? `${placed(row)} ${row.resource}` : row.resource);
const token = (t) => (t === '0' ? '' : t);
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
    since(r.at), [r.holder || 'several clients'], [named(r)], [token(r.token), 'n'], [token(r.mark), 'n'],
    [r.reason.replaceAll('_', ' '), 'why', r.message], [r.count, 'n'],
  ]), 'None since this guard was started.');
  byId('sessions-note').textContent = state.open > state.sessions.length
    ? `${state.sessions.length} of ${plural(state.open, 'session')} of this guard`
    : `${plural(state.open, 'session')} of this guard`;
  fill('sessions', state.sessions.map((s) => [
    [s.holder], [named(s)], [s.token, 'n'], since(s.since),
  ]), 'None.');
}

function render() {
  if (!state) return;
  header();
  tables();
  stairs(byId('stairs'), state.resources.filter((r) => r.steps.length > 0), named, now(), span());
}

const span = spans(3600, render);
window.addEventListener('resize', render);
setInterval(() => document.hidden || render(), 5_000); // ages
follow('events', {}, (message) => {
  state = message;
  received = performance.now();
  render();
});
