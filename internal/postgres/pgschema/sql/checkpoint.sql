-- Checkpoints. Each write needs the leader's claim and the version before.

-- publish writes a checkpoint in a transaction under the claim: the session is recorded under it,
-- or the transaction has entered. A setting that ends with the transaction, or with the savepoint
-- in which enter was called, detects a step that has ended its own transaction by mistake. Anybody
-- can make such a setting, so it proves nothing. The record of the session does, and where there is
-- none the transaction enters here.
--
-- The record must be of this backend, and not of an earlier one with the same pid. registered
-- compares when the backend started. To find that out Postgres copies the state of every backend
-- (pg_stat_get_activity), which costs more than the rest of publish. The number of an attachment
-- proves the same: only attach writes one into a record, and it draws the number in the backend that
-- the record is of. The sequence gives no number twice, and currval returns the last one that this
-- backend has drawn. So a record with that number is of this backend. One statement finds the record
-- and writes the checkpoint. If it writes nothing, the longer way below finds out why, or writes.
--
-- currval fails in a session that has drawn no number. attach says in the setting _numbered that
-- there is one; no resource has such a name. If anybody else makes the setting, publish fails.
create or replace function ringfence.publish(
    resource text, token bigint, issuer text, task text, version bigint, checkpoint json) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_under text := coalesce(current_setting('ringfence.' || resource, true), '');
    v_attached boolean := v_under = 'attached ' || token || ' ' || issuer;
    v_number bigint;
begin
    if not v_attached and v_under <> 'entered ' || token || ' ' || issuer then
        raise exception using errcode = 'invalid_transaction_termination',
            message = format('task %s: the transaction of the step was ended before its checkpoint was written', task),
            detail = 'a synchronous step must not COMMIT or ROLL BACK its own transaction; what it committed has landed, its checkpoint has not',
            hint = 'take COMMIT, ROLLBACK and the like out of the step';
    end if;
    perform ringfence.durable(); -- what comes after this step may rely on it
    if v_attached and version > 1 and current_setting('ringfence._numbered', true) = 'true' then
        v_number := currval('ringfence_private.attachment');
        update ringfence_private.checkpoint c
           set version = publish.version, token = publish.token, checkpoint = publish.checkpoint, saved_at = clock_timestamp()
         where c.task = publish.task and c.version = publish.version - 1 and c.resource = publish.resource
           and exists (select from ringfence_private.session s
                        where s.attachment = v_number and s.resource = publish.resource and s.token = publish.token and s.issuer = publish.issuer
                          and s.pid = pg_backend_pid());
        if found then
            return;
        end if;
    end if;
    if not ringfence.registered(resource, token, issuer) then
        perform ringfence.enter(resource, token, issuer, ''::text);
    end if;
    perform ringfence.save(resource, token, task, version, checkpoint);
end $$;

-- save writes a checkpoint after the version before it. It checks no claim: only publish and
-- enter_and_publish call it, which do.
create or replace function ringfence.save(p_resource text, p_token bigint, p_task text, p_version bigint, p_checkpoint json) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if p_version = 1 then
        insert into ringfence_private.checkpoint (task, resource, version, token, checkpoint)
        values (p_task, p_resource, 1, p_token, p_checkpoint) on conflict do nothing;
    else
        update ringfence_private.checkpoint c
           set version = p_version, token = p_token, checkpoint = p_checkpoint, saved_at = clock_timestamp()
         where c.task = p_task and c.version = p_version - 1 and c.resource = p_resource;
    end if;
    if not found then
        perform ringfence.conflict(p_resource, p_task, p_version);
    end if;
end $$;

-- conflict fails a publish with the reason.
create or replace function ringfence.conflict(p_resource text, p_task text, p_version bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_version bigint;
begin
    perform ringfence.check_owner(p_resource, p_task);
    select t.version into v_version from ringfence_private.checkpoint t where t.task = p_task;
    raise exception using errcode = 'RF008', schema = 'ringfence', table = p_resource,
        message = format('task %s is at version %s, so version %s cannot follow', p_task, coalesce(v_version, 0), p_version),
        detail = 'nothing of this transaction was written',
        hint = 'read the checkpoint again and go on from it';
end $$;

-- check_owner fails if a task belongs to another resource.
create or replace function ringfence.check_owner(p_resource text, p_task text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_owner text := (select t.resource from ringfence_private.checkpoint t where t.task = p_task);
begin
    if v_owner <> p_resource then
        raise exception using errcode = 'RF009', schema = 'ringfence', table = p_resource,
            message = format('task %s belongs to resource "%s", not to "%s"', p_task, v_owner, p_resource),
            detail = 'nothing of this transaction was written',
            hint = 'give tasks of different resources different names';
    end if;
end $$;

-- enter_and_publish is publish as a separate transaction, durable when the statement returns. It
-- enters first, so it need not find out whether the session is recorded.
create or replace function ringfence.enter_and_publish(
    resource text, token bigint, issuer text, task text, version bigint, checkpoint json, candidate text default '')
returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.durable();
    perform ringfence.enter(resource, token, issuer, candidate);
    perform ringfence.save(resource, token, task, version, checkpoint);
end $$;

-- enter_and_forget deletes a checkpoint, as a separate transaction that is durable when the statement
-- returns. It is no error if there is none.
create or replace function ringfence.enter_and_forget(
    resource text, token bigint, issuer text, task text, candidate text default '') returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.durable();
    perform ringfence.enter(resource, token, issuer, candidate);
    delete from ringfence_private.checkpoint c where c.task = enter_and_forget.task and c.resource = enter_and_forget.resource;
    if not found then
        perform ringfence.check_owner(resource, task);
    end if;
end $$;

-- resume reads a checkpoint under a claim. It returns version 0 when there is none, and no checkpoint
-- when the version is have. owner is the resource that the task belongs to.
create or replace function ringfence.resume(
    resource text, token bigint, issuer text, task text, have bigint, candidate text default '',
    out version bigint, out owner text, out checkpoint json)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform ringfence.enter(resource, token, issuer, candidate);
    select c.version, c.resource, case when c.version <> have then c.checkpoint end
      into version, owner, checkpoint
      from ringfence_private.checkpoint c where c.task = resume.task;
    version := coalesce(version, 0);
end $$;

-- checkpoints reads the checkpoints of these tasks; of all tasks when the list is null.
create or replace function ringfence.checkpoints(tasks text[]) returns table (checkpoint json)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select c.checkpoint from ringfence_private.checkpoint c where tasks is null or c.task = any (tasks) order by c.task
$$;
