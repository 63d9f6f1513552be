// The runs of jobs: one lane for each worker, one bar for the last run of each job. Runs at the same
// time are below each other.

const bar = 9; // px
const gap = 2; // px between bars
const head = 18; // px above the bars of a lane, for the worker's name
const foot = 18; // px below the lanes, for the times
const lanesMost = 12;
const rowsMost = 8; // of bars in one lane

function svg(name, attributes, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

// timeline draws runs into the element. A run is { id, worker, state, from, to, title, href }; times and
// span are in ms, and a span of 0 is everything.
export function timeline(element, runs, now, span) {
  const first = Math.min(now - 10_000, ...runs.map((r) => r.from));
  const from = span > 0 ? now - span : first;
  const width = Math.max(280, element.clientWidth);
  const x = (at) => Math.max(0, Math.min(width, ((at - from) / (now - from)) * width));
  const picture = svg('svg', { role: 'img', 'aria-label': 'The runs of jobs over time, by worker' });
  let y = 0;
  for (const [worker, rows] of lanes(runs.filter((r) => r.to >= from))) {
    const lane = svg('g', { 'data-worker': worker });
    lane.append(svg('text', { class: 'name', x: 0, y: y + 12 }, worker));
    y += head;
    for (const row of rows) {
      for (const r of row) lane.append(one(r, x, y));
      y += bar + gap;
    }
    y += 3;
    lane.append(svg('line', { class: 'base', x1: 0, x2: width, y1: y, y2: y }));
    picture.append(lane);
    y += 3;
  }
  y += foot;
  picture.append(svg('text', { x: 0, y: y - 4 }, time(from, now)),
    svg('text', { x: width, y: y - 4, 'text-anchor': 'end' }, 'now'));
  picture.setAttribute('viewBox', `0 0 ${width} ${y}`);
  picture.setAttribute('height', y);
  element.replaceChildren(picture);
}

// lanes puts runs of one worker that overlap into different rows.
function lanes(runs) {
  const all = new Map();
  for (const r of [...runs].sort((a, b) => a.from - b.from)) {
    if (!all.has(r.worker)) all.set(r.worker, []);
    const rows = all.get(r.worker);
    const free = rows.find((row) => row.at(-1).to <= r.from);
    if (free) free.push(r);
    else if (rows.length < rowsMost) rows.push([r]);
  }
  return [...all].sort(([a], [b]) => a.localeCompare(b)).slice(0, lanesMost);
}

function one(r, x, y) {
  const link = svg('a', { href: r.href, 'aria-label': r.title });
  const width = Math.max(2, x(r.to) - x(r.from));
  const shape = svg('rect', { class: r.state, 'data-job': r.id, x: x(r.from), y, width, height: bar, rx: 2 });
  shape.append(svg('title', {}, r.title));
  link.append(shape);
  return link;
}

// time writes the left end of the picture: the hour, or the day if it is not today's.
function time(at, now) {
  const day = new Date(at).toDateString() !== new Date(now).toDateString();
  return day ? new Date(at).toLocaleString() : new Date(at).toLocaleTimeString();
}
