// What the guard needs, and a line that says whether all is well.
import { byId, element, lasting, plural } from './live.js';

const recent = 10 * 60_000; // ms for which a refusal is worth a word on top

// health shows the parts and the verdict. vacant are the resources that nobody leads; age says how many
// ms ago a time was.
export function health(state, vacant, age) {
  byId('parts').replaceChildren(...state.parts.map((p) => part(p, state.stores, age)));
  const out = state.parts.filter((p) => p.error && !p.waits);
  const troubles = [
    ...out.filter((p) => !p.database || !out.some((o) => o.name === p.name && !o.database))
      .map((p) => `${named(p)} is out`),
    vacant.length > 0 && `${plural(vacant.length, 'resource')} without a leader: ${some(vacant)}`,
  ].filter(Boolean);
  const refused = state.refusals.filter((r) => age(r.at) < recent).reduce((n, r) => n + r.count, 0);
  const verdict = byId('verdict');
  let text = troubles.length > 0 ? troubles.join(' · ') : 'All well';
  if (state.parts.length === 0) text = 'Looking…';
  else if (refused > 0) text += ` · ${plural(refused, 'attempt')} refused lately`;
  if (verdict.textContent !== text) verdict.textContent = text; // a screen reader says each change
  verdict.className = troubles.length > 0 ? 'out' : state.parts.length > 0 ? 'well' : '';
}

const named = (p) => (p.name === 'coordinator' ? 'the coordinator' : p.database ? `${p.name}/${p.database}` : p.name);

function some(names) {
  return names.length > 3 ? `${names.slice(0, 3).join(', ')} …` : names.join(', ');
}

function part(p, stores, age) {
  const kind = !p.error ? 'well' : p.waits ? 'waits' : 'out';
  const e = element('li', '', kind);
  const name = p.database ? `${p.name}/${p.database}` : p.name;
  const own = stores.filter((s) => s.store === p.name && (!p.database || s.database === p.database));
  const marks = own.reduce((n, s) => n + s.marks, 0);
  const sessions = own.reduce((n, s) => n + s.sessions, 0);
  let text = 'is well';
  if (p.waits) text = 'is well, but admits nobody without the coordinator';
  else if (p.error) text = `is out for ${lasting(age(p.since))}: ${p.error}`;
  else if (own.length > 0 && own.every((s) => s.read_at)) text += `: ${plural(marks, 'mark')}, ${plural(sessions, 'session')}`;
  e.append(element('b', name), ` ${text}`);
  const unread = own.find((s) => s.error);
  if (!p.error && unread) e.append(element('span', ` its marks cannot be read: ${unread.error}`, 'bad'));
  for (const s of own.filter((s) => s.note)) e.append(element('span', ` ${s.note}`));
  return e;
}
