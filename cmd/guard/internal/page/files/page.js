// The status page of a guard. Every message holds the whole state, and every table is built anew
// from it, so a page that is open for days does not grow.
import { health } from './health.js';
import { lanes } from './lanes.js';
import { byId, element, fill, follow, lasting, plural, spans } from './live.js';
import { short } from './tokens.js';

const columns = 4; // stores that have a column of their own

let state, received;

const narrow = matchMedia('(max-width: 640px)');
const age = (at) => Date.parse(state.now) + (performance.now() - received) - Date.parse(at); // by the clock of the guard
const crowded = (row) => new Set(state.stores.filter((s) => s.store === row.store).map((s) => s.database)).size > 1;
const placed = (row) => (row.database && crowded(row) ? `${row.store}/${row.database}` : row.store);
const named = (row) => (state.stores.length > 1 ? `${placed(row)} ${row.resource}` : row.resource);
const since = (at) => [lasting(age(at)), 'n', new Date(at).toLocaleString()];
const token = (t) => (t === '0' ? ['', 'n'] : [short(t), 'n', t]);

const fits = (...texts) => {
  const wanted = byId('filter').value.toLowerCase();
  return texts.some((text) => (text ?? '').toLowerCase().includes(wanted));
};

// newest returns the mark of a resource that was raised last.
const newest = (r) => r.marks.reduce((a, b) => (!a || b.raised_at > a.raised_at ? b : a), undefined);

// leads returns the cells that say who leads a resource, and for how long; without a coordinator, who raised
// the mark, and when.
function leads(r) {
  const last = newest(r);
  const lost = state.parts.some((p) => p.name === 'coordinator' && p.error);
  if (!r.leader) {
    const text = state.elected ? 'not known yet' : last?.holder ? `${last.holder} raised the mark` : '';
    return [[text, state.elected ? 'dim' : ''], last && !state.elected ? since(last.raised_at) : ['']];
  }
  if (r.leader.token === '0') {
    const at = r.leader.since;
    const who = element('span', 'nobody', 'nobody');
    const cell = element('span');
    cell.append(who);
    if (last?.holder) cell.append(element('span', `, last ${last.holder}`, 'dim'));
    return [[cell], at ? since(at) : ['', 'n']];
  }
  const at = r.leader.since; // not the mark's: a mark may be raised long after the election
  const text = lost ? `not known now, last ${r.leader.holder}` : r.leader.holder;
  return [[text, lost ? 'dim' : 'leads', `token ${r.leader.token}`], at ? since(at) : ['', 'n']];
}

// chips returns the marks of a resource in some stores.
function chips(r, stores) {
  const all = element('span');
  for (const m of r.marks.filter((m) => stores.some((s) => s.store === m.store && s.database === m.database))) {
    const behind = r.leader && r.leader.token !== '0' && r.leader.token !== m.token;
    const where = stores.length > 1 ? `${placed(m)} ` : '';
    let note = '';
    if (m.rolled_back) note = ', the coordinator went back';
    else if (behind) note = ', not raised yet';
    const old = state.parts.some((p) => p.name === m.store && p.error && !p.waits && (!p.database || p.database === m.database));
    const chip = element('span', `${where}${short(m.token)} · ${m.sessions}${note}`, old ? 'chip dim' : behind ? 'chip behind' : 'chip');
    chip.title = `mark ${m.token}, ${plural(m.sessions, 'session')} of all guards, raised by ${m.holder}${old ? '; as they were read last' : ''}`;
    all.append(chip);
  }
  return all;
}

// attempts says what was refused last of a resource.
function attempts(r) {
  const own = state.refusals.filter((f) => f.resource === r.resource);
  if (own.length === 0) return ['', 'attempts'];
  const times = own.reduce((n, f) => n + f.count, 0);
  return [`${words(own[0].reason)}, ${lasting(age(own[0].at))} ago${times > 1 ? ` (${times} in all)` : ''}`,
    'attempts refused', own[0].message];
}

const words = (reason) => reason.replaceAll('_', ' ');

function head(id, names) {
  const row = byId(id).tHead.rows[0];
  if ([...row.cells].map((c) => c.textContent).join('|') === names.join('|')) return;
  row.replaceChildren(...names.map((n) => element('th', n)));
}

function resources() {
  const several = narrow.matches || state.stores.length > columns;
  const groups = several ? [state.stores] : state.stores.map((s) => [s]);
  const names = ['Resource', state.elected ? 'Leads now' : 'Last raised by', 'For',
    ...(several ? ['Mark · sessions'] : state.stores.map((s) => `${placed(s)} · sessions`)), 'Refused last'];
  const row = (r) => [[r.resource, 'name'], ...leads(r), ...groups.map((g) => [chips(r, g), 'marks n']), attempts(r)];
  const all = state.resources.filter((r) => fits(r.resource, r.leader?.holder, newest(r)?.holder));
  const idle = all.filter((r) => r.idle);
  const used = all.filter((r) => !r.idle);
  for (const id of ['resources', 'idle']) head(id, names);
  fill('resources', used.map(row), state.resources.length > 0 ? 'None.' : 'No term has raised a mark yet.');
  fill('idle', idle.map(row), 'None.');
  byId('folded').hidden = idle.length === 0;
  byId('folded').querySelector('summary').textContent = `${plural(idle.length, 'resource')} that nobody uses`;
  const marks = Math.max(0, ...state.stores.map((s) => s.marks));
  byId('resources-note').textContent = marks > state.resources.length
    ? `${state.resources.length} of ${marks.toLocaleString('en')}: those without a leader, and those that changed last` : '';
  lanes(byId('lanes'), used.filter((r) => r.terms.length > 0), state.refusals, Date.parse(state.now) + performance.now() - received, span());
}

function lists() {
  byId('of-refusals').className = state.refusals.length > 0 ? 'card some' : 'card';
  byId('refusals-note').textContent = 'by this guard; equal ones are one row';
  head('refusals', ['Age', 'Who', 'Resource', 'Token', 'Mark', 'Why', 'Times']);
  fill('refusals', state.refusals.filter((r) => fits(r.resource, r.holder, words(r.reason))).map((r) => [
    since(r.at), [r.holder || 'several clients'], [named(r)], token(r.token), token(r.mark),
    [words(r.reason), 'why', r.message], [r.count, 'n'],
  ]), state.refusals.length > 0 ? 'None.' : 'Nobody since this guard was started.');
  byId('sessions-note').textContent = state.open > state.sessions.length
    ? `${state.sessions.length} of ${plural(state.open, 'session')} of this guard`
    : `${plural(state.open, 'session')} of this guard`;
  head('sessions', ['Client', 'Resource', 'Token', 'Open for']);
  fill('sessions', state.sessions.filter((s) => fits(s.resource, s.holder)).map((s) => [
    [s.holder], [named(s)], token(s.token), since(s.since),
  ]), 'None.');
}

function render() {
  if (!state) return;
  byId('guard').textContent = state.guard;
  document.title = `${state.guard}: Ringfence guard`;
  byId('about').textContent = `${state.version}, running for ${lasting(age(state.started))}`;
  const vacant = state.resources.filter((r) => !r.idle && r.leader?.token === '0');
  health(state, vacant.map((r) => r.resource), age);
  resources();
  lists();
}

const span = spans(0, render);
byId('filter').oninput = render;
window.addEventListener('resize', render);
setInterval(() => document.hidden || render(), 5_000); // ages
follow('events', {}, (message) => {
  state = message;
  received = performance.now();
  render();
});
