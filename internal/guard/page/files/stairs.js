// The staircase of tokens: one lane for each resource, one step for each raise. The height of a
// step says nothing but "higher", because tokens need not be consecutive.

const lane = 54; // px
const head = 18; // px above a staircase, for its name
const foot = 18; // px below the lanes, for the times
const labels = 150; // px on the right, for the newest token

function svg(name, attributes, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

// stairs draws the resources into the element. now and span are in ms; a span of 0 is everything.
export function stairs(element, resources, named, now, span) {
  const width = Math.max(280, element.clientWidth);
  const right = width - Math.min(labels, width * 0.4);
  const first = Math.min(now - 10_000, ...resources.map((r) => Date.parse(r.steps[0].at)));
  const from = span > 0 ? now - span : first;
  const x = (at) => Math.max(0, Math.min(right, ((at - from) / (now - from)) * right));
  const height = resources.length * lane + foot;
  const picture = svg('svg', {
    viewBox: `0 0 ${width} ${height}`, height, role: 'img',
    'aria-label': 'The tokens of the resources over time',
  });
  resources.forEach((r, i) => picture.append(one(r, i, named(r), { from, x, right })));
  const y = height - 4;
  picture.append(svg('text', { x: 0, y }, time(from, now)),
    svg('text', { x: right, y, 'text-anchor': 'end' }, 'now'));
  element.replaceChildren(picture);
}

// one draws the lane of a resource.
function one(r, i, name, { from, x, right }) {
  const top = i * lane + head;
  const low = (i + 1) * lane - 4;
  const g = svg('g', { 'data-resource': name });
  g.append(svg('line', { class: 'base', x1: 0, x2: right, y1: low + 3, y2: low + 3 }));
  const steps = r.steps.map((s) => ({ ...s, at: Date.parse(s.at) }));
  const rise = (low - top) / Math.max(1, steps.length);
  const colour = `t${i % 4}`;
  let path = '';
  let y = low;
  steps.forEach((s, n) => {
    y = low - (n + 1) * rise;
    path += n === 0 ? `M${x(s.at)} ${y}` : `H${x(s.at)}V${y}`;
    if (s.at < from) return;
    const dot = svg('circle', { class: colour, cx: x(s.at), cy: y, r: 3 });
    dot.append(svg('title', {}, `${s.token}  ${s.holder}\n${new Date(s.at).toLocaleString()}`));
    g.append(dot);
  });
  g.prepend(svg('path', { class: `stair ${colour}`, d: `${path}H${right}` }));
  g.append(svg('text', { class: 'name', x: 0, y: i * lane + 12 }, name),
    svg('text', { x: right + 7, y: y + 4 }, r.token));
  return g;
}

// time writes the left end of the picture: the hour, or the day if it is not today's.
function time(at, now) {
  const day = new Date(at).toDateString() !== new Date(now).toDateString();
  return day ? new Date(at).toLocaleString() : new Date(at).toLocaleTimeString();
}
