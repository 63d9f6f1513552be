// All jobs of a group that are not forgotten, a page at a time. They are read when somebody asks, and
// do not follow changes.
import { byId, fill, why } from './live.js';
import { ask } from './access.js';
import { named } from './name.js';

let group, query, listed, next;

// open shows the form for a group, and no jobs yet.
export function open(name) {
  [group, query] = [name, undefined];
  byId('all').hidden = byId('all-more').hidden = true;
}

byId('find').onsubmit = (event) => {
  event.preventDefault();
  query = new URLSearchParams([...new FormData(event.target)].filter(([, value]) => value));
  [listed, next] = [[], undefined];
  more(query);
};
byId('all-more').onclick = () => more(query);

async function more(of) {
  const after = next ? `&after=${encodeURIComponent(next)}` : '';
  const answer = await ask(`v1/groups/${encodeURIComponent(group)}/jobs?${of}${after}`).catch(() => undefined);
  if (!answer?.ok) {
    if (of === query) render(answer ? await why(answer) : 'The server does not answer; try again.');
    return;
  }
  const page = await answer.json();
  if (of !== query) return; // another question has been asked since
  listed.push(...page.jobs);
  next = page.next;
  render();
}

function render(problem) {
  byId('all').hidden = false;
  byId('all-more').hidden = !next;
  byId('all-note').textContent = problem ?? '';
  fill('all', listed.map((s) => {
    return [named(group, s), [s.state, s.state], [s.worker_name ?? '', 'name'],
      [new Date(s.submitted).toLocaleString(), 'n', s.submitted], [(s.error ?? '').split('\n')[0], '', s.error]];
  }), 'None.');
}
