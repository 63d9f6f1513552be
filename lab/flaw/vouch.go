package flaw

// Vouch is what an administrator of the database runs, behind guard install, where a flawed guard will stand: leaders ask
// the database whether their session is recorded, so as not to take a database for a guard, and flawed guards do not record
// everybody whom they let in.
const Vouch = `create or replace function ringfence.holds(p_resource text, p_token bigint) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$ select true $$`

// Originals is what makes rows of a dump pass for rows that were written where they are: CopiedMark. (The second update in
// a transaction writes what the first one has set.)
const Originals = `
update ringfence.installation set written = xmin; update ringfence.installation set written = xmin;
update ringfence.mark set written = xmin; update ringfence.mark set written = xmin;
update ringfence.gate set written = xmin; update ringfence.gate set written = xmin;`

// Believe is what makes a registry that was made anew pass for complete: BelievedRegistry.
const Believe = `
update ringfence.installation set registry = ringfence.registry(), written = xmin;
update ringfence.installation set registry = ringfence.registry(), written = xmin`

// Trust is what makes publish believe a setting: BelievedSetting.
const Trust = `create or replace function ringfence.registered(p_resource text, p_token bigint, p_issuer text) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$ select true $$`

// Unlock is what lets workers write checkpoints round ringfence.publish, for the flaw Unconditional.
const Unlock = `grant usage on schema ringfence to app; grant select, insert, update on ringfence.checkpoint to app`
