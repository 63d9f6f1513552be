// The terms of the resources over time: one lane for each resource, one bar for each term, in the colour
// of its holder. A cross is an attempt that was refused.
import { short } from './tokens.js';

const lane = 42; // px
const bar = 18; // px
const legible = 40; // px of a bar that has a label
const foot = 18; // px below the lanes, for the times
const shortest = 60_000; // ms that the picture shows at least
const fitted = 14; // events that it shows, where it fits itself to them

const colours = new Map(); // by holder, for as long as the page is open

function colour(holder) {
  if (!colours.has(holder)) {
    if (colours.size > 1000) colours.clear(); // a page is open for days
    colours.set(holder, colours.size % 6);
  }
  return `c${colours.get(holder)}`;
}

function svg(name, attributes, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

// lanes draws the resources into the element. now and span are in ms; a span of 0 fits the data. refusals
// are those of all resources.
export function lanes(element, resources, refusals, now, span) {
  if (resources.length === 0) {
    element.textContent = 'No term has raised a mark yet.';
    return;
  }
  const width = Math.max(280, element.clientWidth);
  const from = now - Math.max(shortest, span || fit(resources, refusals, now));
  const x = (at) => Math.max(0, Math.min(width, ((at - from) / (now - from)) * width));
  const height = resources.length * lane + foot;
  const picture = svg('svg', {
    viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Terms and refused attempts over time',
  });
  resources.forEach((r, i) => picture.append(one(r, refusals.filter((f) => f.resource === r.resource), {
    top: i * lane, from, now, width, x,
  })));
  const y = height - 4;
  picture.append(svg('text', { x: 0, y }, time(from, now)),
    svg('text', { x: width, y, 'text-anchor': 'end' }, 'now'));
  element.replaceChildren(picture);
}

// fit returns how many ms have the last events.
function fit(resources, refusals, now) {
  const events = [...resources.flatMap((r) => r.terms.flatMap((t) => [t.at, t.end])), ...refusals.map((r) => r.at)]
    .filter(Boolean).map((at) => now - Date.parse(at)).sort((a, b) => a - b);
  return 1.08 * (events[Math.min(fitted, events.length) - 1] ?? 0);
}

// one draws the lane of a resource.
function one(r, refusals, { top, from, now, width, x }) {
  const y = top + 17;
  const g = svg('g', { 'data-resource': r.resource });
  g.append(svg('line', { class: 'base', x1: 0, x2: width, y1: y + bar, y2: y + bar }),
    svg('text', { class: 'name', x: 0, y: top + 12 }, r.resource));
  r.terms.forEach((t, i) => {
    const begin = Date.parse(t.at);
    const next = r.terms[i + 1];
    const end = Math.min(t.end ? Date.parse(t.end) : now, next ? Date.parse(next.at) : now);
    if (end >= from) g.append(term(t, x(begin), x(end), y, end === now && !t.end));
  });
  for (const f of refusals) {
    const at = Date.parse(f.at);
    if (at < from) continue;
    const cross = svg('path', { class: 'refusal', d: `M${x(at) - 4} ${y - 11}l8 8m0 -8l-8 8m4 -4v${bar + 7}` });
    cross.append(svg('title', {}, `refused: ${f.holder || 'several clients'}, token ${f.token}, ${f.reason}, ${f.count} times\n${new Date(at).toLocaleString()}`));
    g.append(cross);
  }
  return g;
}

function term(t, left, right, y, goes) {
  const width = Math.max(2, right - left - 1);
  const box = svg('svg', { x: left, y, width, height: bar - 1, class: 'term' });
  box.append(svg('rect', { class: colour(t.holder), width, height: bar - 1, rx: 3 }),
    svg('text', { class: 'label', x: 5, y: 13 }, width < legible ? '' : `${t.holder || 'somebody'} ${short(t.token)}`),
    svg('title', {}, `${t.holder}, token ${t.token}\nfrom ${new Date(t.at).toLocaleString()}${goes ? '' : t.end ? ` to ${new Date(t.end).toLocaleString()}` : ' to the next term'}`));
  return box;
}

// time writes the left end of the picture: the hour, or the day if it is not today's.
function time(at, now) {
  const day = new Date(at).toDateString() !== new Date(now).toDateString();
  return day ? new Date(at).toLocaleString() : new Date(at).toLocaleTimeString();
}
