-- Version 6: authorization: which role may claim which resource. It is off until an operator switches
-- it on.
--
-- authorize  whether register and enter look at ringfence.allowed
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'ringfence.installation'::regclass and attname = 'authorize') then
        alter table ringfence.installation add column authorize boolean not null default false;
    end if;
end $$;

-- Who may claim what. A row counts only for the very role and database that it was written for, and
-- only as it was written: a row that came from a dump, or that names a role which was dropped and
-- created again, allows nothing. A failover and pg_upgrade keep all of that; see forbidden.
--
-- pattern      a resource, or a pattern in which * stands for any text
-- role_id      the role
-- database_id  the database
-- written      as in ringfence.mark
create table if not exists ringfence.allowed (
    role        name not null,
    pattern     text collate "C" not null check (pattern ~ '^[a-z*][a-z0-9_*]{0,47}$'),
    role_id     oid not null,
    database_id oid not null,
    allowed_at  timestamptz not null default clock_timestamp(),
    allowed_by  name not null default session_user,
    written     xid,
    primary key (role, pattern)
);
