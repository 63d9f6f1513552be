// What the pages have in common. Names come from other programs: they are only ever written as text.

const silence = 40_000; // ms without a message after which the connection counts as lost
const again = 3_000; // ms until the next try

export const byId = (id) => document.getElementById(id);

export function element(name, text, className) {
  const e = document.createElement(name);
  e.textContent = text ?? '';
  if (className) e.className = className;
  return e;
}

export const plural = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;

// lasting writes a time in ms.
export function lasting(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

// fill makes the rows of a table. A row is a list of [content, class, title]; content is a text or an
// element. Cells that have not changed stay, so that a click or a selection in them is not lost.
export function fill(id, rows, nothing) {
  const table = byId(id);
  const columns = [...table.tHead.rows[0].cells].map((c) => c.textContent);
  const body = table.tBodies[0];
  const all = rows.length > 0 ? rows.map((row) => made(row, columns)) : [empty(nothing, columns)];
  all.forEach((row, i) => {
    const old = body.rows[i];
    if (!old) body.append(row);
    else if (old.cells.length !== row.cells.length) old.replaceWith(row);
    else [...row.cells].forEach((c, n) => old.cells[n].isEqualNode(c) || old.cells[n].replaceWith(c));
  });
  while (body.rows.length > all.length) body.rows[all.length].remove();
}

function made(row, columns) {
  const tr = element('tr');
  tr.append(...row.map(([content, className, title], i) => {
    const td = element('td', '', className);
    td.append(content instanceof Node ? content : element('span', content));
    td.dataset.column = columns[i];
    if (title) td.title = title;
    return td;
  }));
  return tr;
}

function empty(text, columns) {
  const tr = element('tr');
  const td = element('td', text);
  td.colSpan = columns.length;
  tr.append(td);
  return tr;
}

// spans has the buttons [data-span] choose how much time a picture shows. It returns a function that
// says how many ms that is, 0 for everything.
export function spans(chosen, render) {
  const buttons = [...document.querySelectorAll('[data-span]')];
  const choose = (button) => {
    for (const b of buttons) b.setAttribute('aria-pressed', b === button);
  };
  for (const b of buttons) b.onclick = () => { choose(b); render(); };
  choose(buttons.find((b) => b.dataset.span === String(chosen)));
  return () => Number(buttons.find((b) => b.ariaPressed === 'true').dataset.span) * 1000;
}

// messages reads server-sent events from the body of an answer.
export async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const data = text.slice(0, end).split('\n').filter((line) => line.startsWith('data: '));
      text = text.slice(end + 2);
      yield data.map((line) => line.slice(6)).join('\n');
    }
  }
}

// why returns the error that an answer holds.
export async function why(answer) {
  const text = await answer.json().catch(() => ({}));
  return text.error ?? `${answer.status} ${answer.statusText}`;
}

function link(text, className) {
  const e = byId('link');
  if (e.textContent !== text) e.textContent = text; // a screen reader says each change
  e.className = className;
}

// follow reads a stream of server-sent events, and connects again when it is lost. received gets each
// message; refused gets the answer if the server does not let the page in, and the stream ends. A page
// that nobody sees takes no connection: a browser has six for one host. EventSource would do, but it
// cannot send a header.
export function follow(address, headers, received, refused) {
  let stream, timer, seen;

  function disconnect() {
    clearTimeout(timer);
    stream?.abort();
    stream = undefined;
  }

  function lost() {
    disconnect();
    link(seen ? 'connection lost, this is the last state' : 'no connection', 'lost');
    timer = setTimeout(connect, again);
  }

  // watch has the page connect again if no message comes. A cut connection is silent.
  function watch() {
    clearTimeout(timer);
    timer = setTimeout(lost, silence);
  }

  async function connect() {
    disconnect();
    const mine = new AbortController();
    stream = mine;
    watch();
    // A page that was opened with a password in its URL may not fetch by a relative one.
    const answer = await fetch(new URL(address, location.origin + location.pathname), { headers, signal: mine.signal, cache: 'no-store' }).catch(() => null);
    if (answer?.status >= 400 && answer.status < 500) {
      const text = await why(answer); // before its stream is aborted
      stop();
      refused?.(answer.status, text);
    } else if (answer?.ok) {
      await read(mine, messages(answer.body));
    }
    if (stream === mine) lost();
  }

  async function read(mine, all) {
    for (;;) {
      const next = await all.next().catch(() => ({ done: true })); // the connection is gone
      if (next.done || stream !== mine) return;
      watch();
      if (!next.value) continue; // a heartbeat
      seen = true;
      link('up to date', 'live');
      received(JSON.parse(next.value));
    }
  }

  const visible = () => (document.hidden ? disconnect() : connect());

  function stop() {
    disconnect();
    document.removeEventListener('visibilitychange', visible);
  }

  document.addEventListener('visibilitychange', visible);
  connect();
  return stop;
}
