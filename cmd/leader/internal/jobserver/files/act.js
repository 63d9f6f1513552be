// Buttons that change a job. A button does it when it is pressed a second time, so that a slip of a
// finger ends nothing. Rows are made anew at any time, so what was pressed is kept here.
import { byId, element, why } from './live.js';
import { post } from './access.js';

const patience = 5_000; // ms until the second press counts as a first one

let pressed, timer, group, changed, acted;

// actions says for which group buttons act, what to call when they look different, and what after they
// have changed a job.
export function actions(of, onLook, onDone) {
  [group, changed, acted] = [of, onLook, onDone];
  press();
}

// action is a button for a job.
export function action(verb, id, text) {
  const sure = pressed === `${id}/${verb}`;
  const e = element('button', sure ? `${text}: press again` : text, sure ? 'sure' : '');
  e.type = 'button';
  e.dataset.verb = verb;
  e.dataset.job = id;
  return e;
}

function press(what) {
  clearTimeout(timer);
  pressed = what;
  if (what) timer = setTimeout(press, patience);
  changed?.();
}

document.addEventListener('click', (event) => {
  const { verb, job } = event.target.closest?.('[data-verb]')?.dataset ?? {};
  if (!verb) return;
  if (pressed === `${job}/${verb}`) send(verb, job);
  else press(`${job}/${verb}`);
});

const done = {
  cancel: 'is cancelled, or told to end', retry: 'waits again', run: 'runs as soon as a worker has room',
  pause: 'is paused', resume: 'is not paused any more',
};

async function send(verb, id) {
  press();
  const answer = await post(`v1/groups/${group}/jobs/${id}/${verb}`).catch(() => undefined);
  if (answer?.ok) {
    say(`Job ${id} ${done[verb]}.`);
    acted?.();
    return;
  }
  say(answer ? await why(answer) : 'The server does not answer. Look whether it was done before you try again.', 'bad');
}

// say shows how it went, until the next time.
export function say(text, className = '') {
  byId('said').hidden = !text;
  byId('said').textContent = text ?? '';
  byId('said').className = `card ${className}`;
}
