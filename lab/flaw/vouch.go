package flaw

// Vouch makes the database vouch for every session, after guard install, so that flawed guards
// work. Leaders check in the database that their session is recorded, so that they do not take a
// database for a guard, and flawed guards do not record everybody whom they admit.
const Vouch = `create or replace function ringfence.holds(p_resource text, p_token bigint)
returns boolean language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select true $$`

// Originals makes rows from a dump count as rows that were written in place: CopiedMark. (The
// second update in a transaction stores what the first one has set.)
const Originals = `
update ringfence.installation set written = xmin; update ringfence.installation set written = xmin;
update ringfence.mark set written = xmin; update ringfence.mark set written = xmin;
update ringfence.gate set written = xmin; update ringfence.gate set written = xmin;`

// Believe makes a new registry count as complete: BelievedRegistry.
const Believe = `
update ringfence.installation set registry = ringfence.registry(), written = xmin;
update ringfence.installation set registry = ringfence.registry(), written = xmin`

// Trust makes publish trust a setting: BelievedSetting.
const Trust = `create or replace function
ringfence.registered(p_resource text, p_token bigint, p_issuer text)
returns boolean language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select true $$`

// Unlock lets workers write checkpoints without ringfence.publish: Unconditional.
const Unlock = `grant usage on schema ringfence to app;
grant select, insert, update on ringfence.checkpoint to app`
