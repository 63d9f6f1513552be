'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($('data').textContent);
  const canvas = $('timeline'), picture = $('picture'), gutter = $('gutter'), tip = $('tip');
  const ctx = canvas.getContext('2d');

  // Sizes in CSS pixels.
  const AXIS = 24, LABEL = 16, BAR = 15, ROW = 15, GAP = 9, SERVER = 21, STAIRS_TITLE = 22,
    STAIRS = 132;
  const SHORTEST = 2;          // milliseconds: the narrowest view
  const CLOSE_UP = 1200;       // milliseconds: the view of a violation (a fifth of a short run)
  // drawn in this order, over what was acknowledged
  const LOUD = ['other', 'unknown', 'stale', 'accepted'];

  const view = { from: data.from, to: data.to };
  let width = 0, height = 0, layout = null, colour = {}, hits = [], selected = null, problem = -1,
    dense = false, asked = false;

  // ---- layout ---------------------------------------------------------------------------------

  function makeLayout() {
    const labelRows = Math.min(4, data.bands.reduce((n, b) => Math.max(n, b.row + 1), 0));
    let y = AXIS + labelRows * LABEL + (labelRows ? 3 : 0);
    const lanes = data.lanes.map((l) => {
      const lane = { top: y, rows: [] };
      if (l.kind === 'worker') {
        lane.bar = y + 5;
        l.rows.forEach((_, i) => lane.rows.push(y + 5 + BAR + 3 + i * ROW + ROW / 2));
        y += 5 + BAR + 3 + l.rows.length * ROW + GAP - 4;
      } else {
        y += SERVER;
      }
      lane.bottom = y;
      return lane;
    });
    const n = data.tokens.length;
    const step = n ? Math.max(2, Math.min(24, STAIRS / n)) : 0;
    const stairs = { top: y, base: y + STAIRS_TITLE + n * step + 4, step };
    return { labelRows, lanes, stairs, height: n ? stairs.base + 6 : y };
  }

  const tokenY = (rank) => layout.stairs.base - 4 - (rank + 0.5) * layout.stairs.step;
  const x = (t) => (t - view.from) / (view.to - view.from) * width;
  const timeAt = (px) => view.from + px / width * (view.to - view.from);
  const opY = (o) => layout.lanes[o.lane].rows[o.row];

  function label(text, top, kind, lane) {
    const el = document.createElement('div');
    el.className = kind;
    el.textContent = text;
    el.title = text;
    el.style.top = top + 'px';
    if (lane !== undefined) el.dataset.lane = lane;
    gutter.append(el);
  }

  function makeGutter() {
    gutter.replaceChildren();
    gutter.style.height = layout.height + 'px';
    label('seconds', 5, 'axis');
    if (layout.labelRows) label('faults', AXIS + 1, 'axis');
    data.lanes.forEach((l, i) => {
      const lane = layout.lanes[i];
      label(l.name || '(no name)', lane.top + (l.kind === 'worker' ? 6 : 4), 'name', l.name);
      l.rows.forEach((r, k) => label(r, lane.rows[k] - 7, 'row'));
    });
    if (!data.tokens.length) return;
    label('token', layout.stairs.top + 6, 'name');
    const every = Math.ceil(14 / layout.stairs.step);
    data.tokens.forEach((t, rank) => {
      if (rank % every === 0) label(t, tokenY(rank) - 7, 'token');
    });
  }

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    layout = makeLayout();
    makeGutter();
    width = Math.max(50, picture.clientWidth - gutter.offsetWidth);
    height = layout.height;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + 'px';
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  function readColours() {
    const css = getComputedStyle(document.documentElement);
    colour = {};
    for (const name of ['card', 'ink', 'dim', 'line', 'lane', 'edge', 'ok', 'stale', 'unknown',
      'other', 'accepted', 'fault', 't0', 't1', 't2', 't3', 't4', 't5']) {
      colour[name] = css.getPropertyValue('--' + name).trim();
    }
    colour.font = getComputedStyle(document.body).fontFamily;
  }
  const termColour = (rank) => rank < 0 ? colour.other : colour['t' + rank % 6];

  // ---- drawing --------------------------------------------------------------------------------

  function draw() {
    hits = [];
    dense = false;
    ctx.clearRect(0, 0, width, height);
    ctx.font = '11px ' + colour.font;
    ctx.textBaseline = 'middle';
    drawLanes();
    drawAxis();
    drawBands();
    drawStairs();
    data.bars.forEach(drawBar);
    drawOps();
    drawSelection();
    Object.assign(picture.dataset, { from: view.from, to: view.to, dense, drawn: hits.length });
    placeTip();
  }

  function redraw() { // at most once per frame
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  }

  function drawLanes() {
    layout.lanes.forEach((l, i) => {
      if (i % 2 !== 0) return;
      ctx.fillStyle = colour.lane;
      ctx.fillRect(0, l.top, width, l.bottom - l.top);
    });
    ctx.fillStyle = colour.edge;
    ctx.fillRect(0, layout.stairs.top, width, 1);
  }

  function tick(span) { // milliseconds between lines, so that labels have room
    const least = span / Math.max(2, width / 80);
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
  }

  function drawAxis() {
    const every = tick(view.to - view.from);
    const digits = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(every) + 1e-9)));
    for (let n = Math.ceil(view.from / every); n * every <= view.to; n++) {
      const px = Math.round(x(n * every));
      ctx.fillStyle = colour.line;
      ctx.fillRect(px, AXIS - 5, 1, height - AXIS + 5);
      ctx.fillStyle = colour.dim;
      ctx.textAlign = px < 16 ? 'left' : px > width - 16 ? 'right' : 'center';
      ctx.fillText((n * every / 1000).toFixed(digits), px, 11);
    }
    ctx.textAlign = 'left';
  }

  function drawBands() {
    data.bands.forEach((b, i) => {
      const left = x(b.from), right = x(b.to);
      if (right < 0 || left > width) return;
      const a = Math.max(-2, left), w = Math.max(2, Math.min(width + 2, right) - a);
      ctx.fillStyle = colour.fault;
      ctx.globalAlpha = 0.09;
      ctx.fillRect(a, AXIS, w, height - AXIS);
      ctx.globalAlpha = 0.45;
      ctx.fillRect(a, AXIS, 1, height - AXIS);
      if (!b.open) ctx.fillRect(a + w - 1, AXIS, 1, height - AXIS);
      ctx.globalAlpha = 1;
      b.lanes.forEach((l) => hatch(a, layout.lanes[l], w));
      drawFaultLabel(b, i, a, w);
    });
  }

  // hatch draws the fault in the lane of its target.
  function hatch(a, lane, w) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(a, lane.top + 1, w, lane.bottom - lane.top - 2);
    ctx.clip();
    ctx.strokeStyle = colour.fault;
    ctx.globalAlpha = 0.34;
    ctx.beginPath();
    const h = lane.bottom - lane.top;
    for (let px = a - h; px < a + w; px += 8) {
      ctx.moveTo(px, lane.bottom);
      ctx.lineTo(px + h, lane.top);
    }
    ctx.stroke();
    ctx.globalAlpha = 0.8;
    ctx.strokeRect(a + 0.5, lane.top + 1.5, w - 1, h - 3);
    ctx.restore();
  }

  function drawFaultLabel(b, i, a, w) {
    if (b.row >= layout.labelRows) return;
    const next = data.bands.slice(i + 1).find((o) => o.row === b.row);
    const start = Math.max(0, a), room = (next ? Math.min(width, x(next.from)) : width) - start - 2;
    const y = AXIS + 1 + b.row * LABEL;
    ctx.fillStyle = colour.fault;
    ctx.fillRect(start, y, Math.max(2, Math.min(a + w, width) - start), LABEL - 3);
    const half = Math.min(w, room) / 2;
    hits.push({ x: start + half, y: y + 6, rx: Math.max(6, half), fault: i, weight: 1 });
    const text = fit(b.name, room - 6);
    if (!text) return;
    const wide = ctx.measureText(text).width + 6;
    ctx.fillRect(start, y, wide, LABEL - 3);
    ctx.fillStyle = colour.card;
    ctx.fillText(text, start + 3, y + 7);
  }

  function fit(text, room) {
    if (ctx.measureText(text).width <= room) return text;
    for (let n = text.length - 1; n >= 4; n--) {
      if (ctx.measureText(text.slice(0, n) + '…').width <= room) return text.slice(0, n) + '…';
    }
    return '';
  }

  function drawBar(b) {
    const left = Math.max(-4, x(b.from)), right = Math.min(width + 4, x(b.to));
    if (right < 0 || left > width || b.lane < 0) return;
    const y = layout.lanes[b.lane].bar, w = Math.max(1.5, right - left - 1);
    if (y === undefined) return;
    const c = termColour(b.token);
    hits.push({ x: (left + right) / 2, y: y + BAR / 2, rx: w / 2, bar: b, weight: 0 });
    if (b.state === 'standing') {
      ctx.fillStyle = colour.edge;
      ctx.fillRect(left, y + BAR / 2 - 1, w, 2);
      return write('standing', left, w, y, colour.dim, colour.card);
    }
    ctx.fillStyle = c;
    ctx.globalAlpha = { won: 0.45, ready: 1, lost: 0.13 }[b.state] ?? 0.3;
    ctx.fillRect(left, y, w, BAR);
    ctx.globalAlpha = 1;
    if (b.state === 'lost') {
      ctx.strokeStyle = c;
      ctx.setLineDash([3, 2]);
      ctx.strokeRect(left + 0.5, y + 0.5, w - 1, BAR - 1);
      ctx.setLineDash([]);
    }
    const token = data.tokens[b.token] ?? '';
    const text = b.state === 'ready' ?
      ['leads, token ' + token, token] : [b.state + ' ' + token, b.state];
    write(text.find((s) => ctx.measureText(s).width + 8 < w) ?? '', left, w, y,
      b.state === 'lost' ? c : colour.card);
  }

  function write(text, left, w, y, c, background) {
    const start = Math.max(4, left + 4);
    if (!text || start + ctx.measureText(text).width > Math.min(width, left + w)) return;
    if (background) {
      ctx.fillStyle = background;
      ctx.fillRect(start - 3, y + 2, ctx.measureText(text).width + 6, BAR - 4);
    }
    ctx.fillStyle = c;
    ctx.fillText(text, start, y + BAR / 2 + 0.5);
  }

  // ---- operations -----------------------------------------------------------------------------

  const firstAt = (t) => { // index of the first operation at or after t
    let low = 0, high = data.ops.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (data.ops[middle].at < t) low = middle + 1; else high = middle;
    }
    return low;
  };

  function drawOps() {
    const rows = new Map();
    const slack = (view.to - view.from) / width * 8; // half a mark
    for (let i = firstAt(view.from - slack);
      i < data.ops.length && data.ops[i].at <= view.to + slack; i++) {
      const key = data.ops[i].lane * 64 + data.ops[i].row;
      if (!rows.has(key)) rows.set(key, []);
      rows.get(key).push(i);
    }
    drawWaits();
    const loud = { other: [], unknown: [], stale: [], accepted: [] };
    for (const row of rows.values()) {
      const calm = row.filter((i) => data.ops[i].mark === 'ok' && !data.ops[i].problem);
      const crowded = calm.length > width / 7;
      if (crowded) drawDense(calm);
      calm.filter((i) => !crowded || data.ops[i].do === 'raise')
        .forEach((i) => drawMark(i, opY(data.ops[i])));
      for (const i of row) {
        const o = data.ops[i];
        if (o.problem || o.mark !== 'ok') loud[o.mark === 'ok' ? 'other' : o.mark].push(i);
      }
    }
    LOUD.forEach((m) => drawSparse(loud[m], (o) => opY(o)));
    drawBehind(slack);
  }

  // Operations that were in flight for long, such as those that a fault held.
  const waits = data.ops.map((o, i) => i).filter((i) =>
    data.ops[i].at - data.ops[i].sent > (data.to - data.from) / 4000);

  function drawWaits() {
    for (const i of waits) {
      const o = data.ops[i], a = x(o.sent), b = x(o.at);
      if (b < 0 || a > width || b - a < 5) continue;
      ctx.fillStyle = colour[o.mark];
      ctx.globalAlpha = 0.5;
      ctx.fillRect(a, opY(o) - 0.75, b - a, 1.5);
      ctx.fillRect(a, opY(o) - 3, 1.5, 6);
      ctx.globalAlpha = 1;
    }
  }

  // drawDense draws columns for acknowledged operations where there is no room for single marks.
  function drawDense(list) {
    dense = true;
    const column = 3, columns = new Map();
    for (const i of list) {
      const c = Math.floor(x(data.ops[i].at) / column);
      const at = columns.get(c);
      if (at) { at.n++; at.last = i; } else columns.set(c, { n: 1, last: i });
    }
    let most = 1;
    for (const c of columns.values()) most = Math.max(most, c.n);
    ctx.fillStyle = colour.ok;
    for (const [c, at] of columns) {
      const y = opY(data.ops[at.last]), h = (ROW - 3) * (0.25 + 0.75 * at.n / most);
      ctx.fillRect(c * column, y + (ROW - 3) / 2 - h, column - 0.6, h);
      hits.push({ x: c * column + 1, y, op: at.last, n: at.n, weight: 1 });
    }
  }

  // drawSparse draws at most one mark of a kind in a few pixels, and counts the operations of each.
  function drawSparse(list, y) {
    const seen = new Map();
    for (const i of list) {
      const o = data.ops[i], place = Math.round(x(o.at) / (o.mark === 'accepted' ? 14 : 5));
      const key = [o.lane, o.row, o.token, o.mark, place, o.problem].join();
      const hit = seen.get(key);
      if (hit) { hit.n++; continue; }
      seen.set(key, drawMark(i, y(o)));
    }
  }

  function drawMark(i, y) {
    const o = data.ops[i], px = x(o.at);
    shape(o, px, y);
    if (o.problem && o.mark !== 'accepted') ring(px, y, 8);
    const hit = { x: px, y, op: i, n: 1, weight: 2 + LOUD.indexOf(o.mark) + (o.problem ? 5 : 0) };
    hits.push(hit);
    return hit;
  }

  function ring(px, y, r) {
    ctx.strokeStyle = colour.accepted;
    ctx.lineWidth = 2.2;
    ctx.beginPath();
    ctx.arc(px, y, r, 0, 7);
    ctx.stroke();
    ctx.lineWidth = 1;
  }

  function polygon(points) {
    ctx.beginPath();
    points.forEach(([a, b], i) => i ? ctx.lineTo(a, b) : ctx.moveTo(a, b));
    ctx.closePath();
    ctx.fill();
  }

  function shape(o, px, y) {
    ctx.fillStyle = ctx.strokeStyle = colour[o.mark];
    switch (o.mark) {
      case 'ok':
        if (o.do === 'raise') {
          return polygon([[px, y - 6], [px + 5.5, y + 4.5], [px - 5.5, y + 4.5]]);
        }
        ctx.beginPath(); ctx.arc(px, y, 3, 0, 7); ctx.fill();
        return;
      case 'unknown':
        return polygon([[px, y - 6], [px + 5, y], [px, y + 6], [px - 5, y]]);
      case 'stale':
        ctx.lineWidth = 2.2;
        ctx.beginPath();
        ctx.moveTo(px - 4, y - 4); ctx.lineTo(px + 4, y + 4);
        ctx.moveTo(px + 4, y - 4); ctx.lineTo(px - 4, y + 4);
        ctx.stroke();
        ctx.lineWidth = 1;
        return;
      case 'other':
        ctx.lineWidth = 1.5;
        ctx.strokeRect(px - 3.5, y - 3.5, 7, 7);
        ctx.lineWidth = 1;
        return;
    }
    drawAccepted(px, y);
  }

  // drawAccepted draws a stale write that was accepted.
  function drawAccepted(px, y) {
    const r = 9, s = 3.8;
    ctx.fillStyle = colour.card;
    const corners = (r, s) => [
      [-s, -r], [s, -r], [r, -s], [r, s], [s, r], [-s, r], [-r, s], [-r, -s],
    ].map(([a, b]) => [px + a, y + b]);
    polygon(corners(r + 1.5, s + 0.6));
    ctx.fillStyle = colour.accepted;
    polygon(corners(r, s));
    ctx.fillStyle = '#fff';
    ctx.fillRect(px - 1.2, y - 5.5, 2.4, 6.5);
    ctx.fillRect(px - 1.2, y + 2.8, 2.4, 2.4);
  }

  // ---- the staircase of tokens ----------------------------------------------------------------

  function drawStairs() {
    if (!data.tokens.length) return;
    const s = layout.stairs;
    ctx.fillStyle = colour.dim;
    ctx.fillText('the mark, as acknowledged; below it, attempts under an older token', 6,
      s.top + 12);
    data.stairs.forEach((stair, n) => drawStair(stair, n));
  }

  function drawStair(stair, n) {
    const s = layout.stairs, steps = stair.steps;
    steps.forEach((step, i) => {
      const a = x(step.at), b = i + 1 < steps.length ? x(steps[i + 1].at) : x(data.to);
      if (n === 0) {
        ctx.fillStyle = termColour(step.token);
        ctx.globalAlpha = 0.13;
        ctx.fillRect(a, tokenY(step.token), b - a, s.base - tokenY(step.token));
        ctx.globalAlpha = 1;
      }
    });
    ctx.strokeStyle = colour.ink;
    ctx.lineWidth = n ? 1.4 : 2;
    ctx.setLineDash(n ? [5, 4] : []);
    ctx.beginPath();
    steps.forEach((step, i) => {
      const y = tokenY(step.token) + n * 2.5;
      if (i === 0) ctx.moveTo(x(step.at), s.base);
      else ctx.lineTo(x(step.at), tokenY(steps[i - 1].token) + n * 2.5);
      ctx.lineTo(x(step.at), y);
      ctx.lineTo(i + 1 < steps.length ? x(steps[i + 1].at) : x(data.to), y);
    });
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.lineWidth = 1;
    for (const step of steps) {
      const rise = { ...step, store: stair.store };
      hits.push({ x: x(step.at), y: tokenY(step.token), rise, weight: 1 });
    }
  }

  const behind = (o) => o.behind || o.mark === 'stale' || o.mark === 'accepted';

  function drawBehind(slack) {
    const list = { ok: [], other: [], unknown: [], stale: [], accepted: [] };
    for (let i = firstAt(view.from - slack);
      i < data.ops.length && data.ops[i].at <= view.to + slack; i++) {
      const o = data.ops[i];
      if (behind(o) && o.token >= 0) list[o.mark].push(i);
    }
    ['ok', ...LOUD].forEach((m) => drawSparse(list[m], (o) => tokenY(o.token)));
  }

  // ---- what is selected -----------------------------------------------------------------------

  function drawSelection() {
    if (!selected) return;
    const px = x(selected.t);
    ctx.strokeStyle = colour.accepted;
    ctx.setLineDash([4, 3]);
    ctx.beginPath(); ctx.moveTo(px, AXIS); ctx.lineTo(px, height); ctx.stroke();
    ctx.setLineDash([]);
    if (selected.op === undefined) return;
    const o = data.ops[selected.op];
    for (const y of [opY(o), ...(behind(o) && o.token >= 0 ? [tokenY(o.token)] : [])]) {
      shape(o, px, y);
      ring(px, y, 13);
    }
  }

  const clock = (t) => (t / 1000).toFixed(3) + ' s';

  function linesOf(hit) {
    if (hit.op !== undefined) return linesOfOp(data.ops[hit.op], hit.n);
    if (hit.fault !== undefined) {
      const b = data.bands[hit.fault];
      return [b.name, b.text, clock(b.from) + (b.open ? ', not ended' : ' to ' + clock(b.to))];
    }
    if (hit.bar) {
      const b = hit.bar;
      return [data.lanes[b.lane].name + ': ' + b.state,
        b.token >= 0 && 'token ' + data.tokens[b.token], b.text,
        clock(b.from) + ' to ' + clock(b.to)];
    }
    return [
      'the mark of ' + (hit.rise.store || 'the store') + ' is ' + data.tokens[hit.rise.token],
      'first acknowledged at ' + clock(hit.rise.at),
    ];
  }

  function linesOfOp(o, n) {
    const outcome = { ok: 'acknowledged', stale: 'refused: stale token',
      unknown: 'outcome unknown', other: o.outcome,
      accepted: 'STALE, AND ACCEPTED (' + o.outcome + ')' }[o.mark];
    return [outcome,
      [o.do, o.store].filter(Boolean).join(' to ') + ', token ' + (data.tokens[o.token] ?? 'none'),
      o.process + ', ' + o.id,
      o.open ? clock(o.sent) + ', never answered' :
        clock(o.at) + ', after ' + (o.at - o.sent).toFixed(1) + ' ms',
      o.place ? 'commit ' + o.place + ' of ' + o.store : '', o.text,
      n > 1 && 'and ' + (n - 1) + ' more here'];
  }

  function fillTip(lines) {
    tip.replaceChildren();
    lines.filter(Boolean).forEach((line, i) => {
      const el = document.createElement(i ? 'p' : 'b');
      if (i > 1) el.className = 'dim';
      el.textContent = line;
      tip.append(el);
    });
  }

  function showTip(lines, px, y, pinned) {
    fillTip(lines);
    tip.hidden = false;
    tip.classList.toggle('pinned', pinned);
    const left = px + gutter.offsetWidth, room = picture.clientWidth;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    const fits = left + 20 + w <= room;
    tip.style.left = Math.max(4, fits ? left + 20 : Math.min(left - 20 - w, room - w - 4)) + 'px';
    tip.style.top = Math.max(2, Math.min(y - h / 2, height - h - 2)) + 'px';
  }

  function placeTip() {
    if (!selected) return;
    const px = x(selected.t);
    if (px < 0 || px > width) { tip.hidden = true; return; }
    const y = selected.op === undefined ? AXIS + 40 : opY(data.ops[selected.op]);
    showTip(selected.lines, px, y, true);
  }

  function nearest(px, y, reach) {
    let best = null, least = Infinity;
    for (const h of hits) {
      const dx = Math.max(0, Math.abs(h.x - px) - (h.rx ?? 0)), dy = Math.abs(h.y - y);
      if (dx > reach || dy > reach) continue;
      const cost = dx + dy - h.weight * 2.5;
      if (cost < least) { least = cost; best = h; }
    }
    return best;
  }

  // ---- moving about ---------------------------------------------------------------------------

  function show(from, to) {
    const whole = data.to - data.from;
    const span = Math.max(SHORTEST, Math.min(whole, to - from));
    view.from = Math.max(data.from, Math.min(data.to - span, from));
    view.to = view.from + span;
    redraw();
  }

  function zoom(factor, px) {
    const t = timeAt(px ?? width / 2), span = (view.to - view.from) * factor;
    const share = (t - view.from) / (view.to - view.from);
    show(t - span * share, t + span * (1 - share));
  }

  function pan(share) {
    const by = (view.to - view.from) * share;
    show(view.from + by, view.to + by);
  }

  function whole() {
    selected = null;
    problem = -1;
    tip.hidden = true;
    markProblem();
    show(data.from, data.to);
  }

  function goTo(k) {
    const n = data.problems.length;
    if (!n) return;
    problem = ((k % n) + n) % n;
    const p = data.problems[problem];
    const button = document.querySelector('[data-problem="' + problem + '"]');
    markProblem();
    picture.scrollIntoView({ block: 'nearest' });
    if (p.at < 0) { selected = null; tip.hidden = true; return show(data.from, data.to); }
    const lines = [button ? button.textContent.trim() : ''];
    if (p.op >= 0) lines.push(...linesOfOp(data.ops[p.op]));
    selected = { t: p.at, op: p.op >= 0 ? p.op : undefined, lines };
    const span = Math.min((data.to - data.from) / 5, CLOSE_UP);
    show(p.at - span / 2, p.at + span / 2);
  }

  function markProblem() {
    document.querySelectorAll('#problems li').forEach((li, i) => {
      li.classList.toggle('on', i === problem);
      const list = li.parentElement;
      if (i === problem) list.scrollTop = li.offsetTop - list.offsetTop - 40;
    });
  }

  function showFault(i) {
    const b = data.bands[i], margin = Math.max(50, (b.to - b.from) * 0.4);
    picture.scrollIntoView({ block: 'nearest' });
    selected = { t: b.from, lines: linesOf({ fault: i }) };
    show(b.from - margin, b.to + margin);
  }

  // ---- input ----------------------------------------------------------------------------------

  let drag = null;

  const inside = (e) => {
    const r = canvas.getBoundingClientRect();
    return { px: e.clientX - r.left, y: e.clientY - r.top };
  };

  function hover(e) {
    const { px, y } = inside(e);
    const hit = nearest(px, y, e.pointerType === 'touch' ? 16 : 7);
    if (hit) showTip(linesOf(hit), hit.op === undefined ? px : hit.x, y, false);
    else if (selected) placeTip();
    else tip.hidden = true;
  }

  canvas.addEventListener('pointerdown', (e) => {
    drag = { start: e.clientX, from: view.from, to: view.to, moved: false };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener('pointermove', (e) => {
    if (!drag) return hover(e);
    const by = (drag.start - e.clientX) / width * (drag.to - drag.from);
    if (Math.abs(drag.start - e.clientX) > 3) {
      drag.moved = true;
      canvas.classList.add('dragging');
      tip.hidden = true;
    }
    if (drag.moved) show(drag.from + by, drag.to + by);
  });
  const drop = (e) => {
    if (drag && !drag.moved && e.type === 'pointerup') tap(e);
    drag = null;
    canvas.classList.remove('dragging');
  };
  canvas.addEventListener('pointerup', drop);
  canvas.addEventListener('pointercancel', drop);
  canvas.addEventListener('pointerleave', () => { if (!drag && !selected) tip.hidden = true; });

  // tap selects what was hit, until something else is hit.
  function tap(e) {
    const { px, y } = inside(e);
    const hit = nearest(px, y, e.pointerType === 'touch' ? 16 : 7);
    selected = hit && hit.op !== undefined ?
      { t: data.ops[hit.op].at, op: hit.op, lines: linesOf(hit) } : null;
    tip.hidden = true;
    draw();
    if (hit && !selected) showTip(linesOf(hit), px, y, false);
  }

  canvas.addEventListener('wheel', (e) => {
    const all = view.to - view.from >= data.to - data.from - 1e-6;
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      return pan(e.deltaX / width);
    }
    if (all && e.deltaY > 0) return; // nothing left to zoom out of: the page scrolls
    e.preventDefault();
    zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * 0.005), inside(e).px);
  }, { passive: false });

  const keys = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
    '+': () => zoom(0.6), '=': () => zoom(0.6), '-': () => zoom(1 / 0.6),
    n: () => goTo(problem + 1), p: () => goTo(problem < 0 ? -1 : problem - 1),
    0: whole, Escape: whole,
  };
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });

  const on = (id, what) => $(id)?.addEventListener('click', what);
  on('first', () => goTo(Math.max(0, data.problems.findIndex((p) => p.at >= 0))));
  on('next', () => goTo(problem + 1));
  on('in', () => zoom(0.6));
  on('out', () => zoom(1 / 0.6));
  on('whole', whole);
  on('problems', (e) => {
    const b = e.target.closest('[data-problem]');
    if (b) goTo(+b.dataset.problem);
  });
  on('faults', (e) => {
    const b = e.target.closest('[data-fault]');
    if (b) showFault(+b.dataset.fault);
  });
  on('copy', copy);

  async function copy() {
    const text = $('command').textContent;
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch { // no clipboard: at least select it
      getSelection().selectAllChildren($('command'));
      done = document.execCommand('copy');
    }
    $('copy').textContent = done ? 'copied' : 'selected';
    setTimeout(() => { $('copy').textContent = 'copy'; }, 1500);
  }

  // ---- for tests and for the console ----------------------------------------------------------

  window.report = {
    data, view, draw,
    count: () => data.ops.reduce((n, o) => { n[o.mark] = (n[o.mark] ?? 0) + 1; return n; }, {}),
    drawn: (m) => hits.filter((h) => h.op !== undefined && data.ops[h.op].mark === m).length,
    hits: () => hits,
    where: (id) => { // of an operation, in CSS pixels of the window
      const o = data.ops.find((o) => o.id === id), r = canvas.getBoundingClientRect();
      return o && { x: r.left + x(o.at), y: r.top + opY(o),
        visible: o.at >= view.from && o.at <= view.to };
    },
  };

  readColours();
  resize();
  new ResizeObserver(() => {
    if (Math.abs(picture.clientWidth - gutter.offsetWidth - width) > 0.5) resize();
  }).observe(picture);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change',
    () => { readColours(); draw(); });
})();
