package flaw

// Vouch makes the database vouch for every session, after guard install, so that flawed guards
// work. Leaders check in the database that their session is recorded, so that they do not take a
// database for a guard, and flawed guards do not record everybody whom they admit.
const Vouch = `create or replace function ringfence.holds(resource text, token bigint)
returns boolean language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select true $$`

// Originals makes rows from a dump count as rows that were written in place, in this run:
// CopiedMark. (The second update in a transaction stores what the first one has set.)
const Originals = `
update ringfence_private.installation set registry = ringfence.registry(), written = xmin; update ringfence_private.installation set written = xmin;
update ringfence_private.mark set written = xmin; update ringfence_private.mark set written = xmin;
update ringfence_private.gate set started = pg_postmaster_start_time(), written = xmin; update ringfence_private.gate set written = xmin;`

// Believe takes away the list that an installation makes of those who are connected:
// BelievedRegistry.
const Believe = `delete from ringfence_private.session where resource = '*'`

// Trust makes publish trust a setting: BelievedSetting.
const Trust = `create or replace function
ringfence.registered(p_resource text, p_token bigint, p_issuer text)
returns boolean language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select true $$`

// Count makes the guard's count of answers the proof that a session is at rest: BelievedCount.
const Count = `create or replace function
ringfence.rests(p_state text, p_query text, p_proof text)
returns boolean language sql immutable set search_path = pg_catalog, pg_temp
as $$ select coalesce(p_proof <> '', false) $$`

// Unorder puts the keys of marks and of gates in the order of the database: DatabaseOrder.
const Unorder = `do $$
declare
	v_standing text := pg_get_viewdef('ringfence_private.standing');
begin
	drop view ringfence_private.standing;
	alter table ringfence_private.mark
		alter column resource type ringfence_private.resource collate "default";
	alter table ringfence_private.gate
		alter column resource type ringfence_private.resource collate "default";
	execute 'create view ringfence_private.standing as ' || v_standing;
end $$`

// Abandon closes the records of sessions that are let go, without a list of their backends:
// Abandoned.
const Abandon = `create or replace function ringfence.release(
	p_pids integer[], p_backend_starts timestamptz[], p_proofs text[], p_overdue boolean[])
returns bigint[] language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
	v_pids integer[];
	v_starts timestamptz[];
	v_let_go bigint[];
begin
	perform pg_stat_clear_snapshot();
	select array_agg(s.pid), array_agg(s.backend_start), array_agg(s.place) filter (where a.pid is not null)
	  into v_pids, v_starts, v_let_go
	  from unnest(p_pids, p_backend_starts, p_proofs) with ordinality as s(pid, backend_start, proof, place)
	  left join pg_stat_get_activity(null) a on a.pid = s.pid and a.backend_start = s.backend_start
	 where a.pid is null or ringfence.rests(a.state, a.query, s.proof);
	perform ringfence.forget(null, v_pids, v_starts);
	return coalesce(v_let_go, '{}');
end $$`

// Unlock lets workers write checkpoints without ringfence.publish: Unconditional.
const Unlock = `grant usage on schema ringfence_private to app;
grant select, insert, update on ringfence_private.checkpoint to app`
