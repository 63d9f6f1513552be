// How jobs are named, here and by leader jobs: a command by itself, others by their kind and title.
import { element } from './live.js';

export function called(s) {
  if (!s.title) return s.kind;
  return s.kind === 'command' ? s.title : `${s.kind} ${s.title}`;
}

// named links to a job, and shows its ID below its name.
export function named(group, s) {
  const all = element('span', '', 'job');
  const link = element('a', called(s));
  link.href = `#${group}/${s.id}`;
  all.append(link, element('small', s.id, 'n'));
  return [all, 'name'];
}

// has reports whether a text is in what people know a job by. queueview.Selection selects the same.
export const has = (s, text) => [
  s.id, s.kind, s.title, s.resource, s.unique, s.worker_name, s.error, ...(s.labels ?? []),
].join('\n').toLowerCase().includes(text.toLowerCase());
