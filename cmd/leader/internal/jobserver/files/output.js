// What a running job has written so far. Its worker is asked while somebody looks.
import { byId, element, why } from './live.js';
import { ask } from './access.js';

const pause = 3_000; // ms between two questions

// output shows the output of the running job at an address until the signal is aborted.
export async function output(address, signal) {
  const into = byId('job-output');
  while (!signal.aborted) {
    if (!document.hidden) {
      const answer = await ask(`${address}/output`, signal).catch(() => undefined);
      const got = answer?.ok ? await answer.json().catch(() => undefined) : undefined;
      const problem = answer && !answer.ok ? await why(answer) : '';
      if (signal.aborted) break;
      if (got?.running) write(into, streams(got.result));
      else if (!got) byId('job-output-note').textContent = problem || 'The server does not answer.';
    }
    await new Promise((done) => { setTimeout(done, pause); });
  }
}

// forget removes what output has shown.
export function forget() {
  byId('job-output').replaceChildren();
  byId('job-output-note').textContent = '';
}

// streams returns the texts of a result, by name.
export function streams(result) {
  if (result === undefined || result === null) return [];
  const known = typeof result === 'object' && Number.isInteger(result.code) &&
    Object.keys(result).every((k) => ['code', 'stdout', 'stderr'].includes(k));
  if (!known) return [['Result', JSON.stringify(result, null, 2)]];
  return [['Standard output', result.stdout], ['Standard error', result.stderr]].filter(([, text]) => text);
}

// write changes texts in place, so that a selection stays, and keeps an end in sight that was.
function write(into, texts) {
  byId('job-output-note').textContent = texts.length > 0 ? '' : 'It has written nothing yet.';
  texts.forEach(([name, text], i) => {
    let [title, pre] = [into.children[2 * i], into.children[2 * i + 1]];
    if (!pre) {
      [title, pre] = [element('h3'), element('pre')];
      into.append(title, pre);
    }
    title.textContent = `${name} so far`;
    if (pre.textContent === text) return;
    const below = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 20;
    pre.textContent = text;
    if (below) pre.scrollTop = pre.scrollHeight;
  });
  while (into.children.length > 2 * texts.length) into.lastChild.remove();
}
