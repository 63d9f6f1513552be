package seal

// lineage begins a query about the parents and descendants of sealed tables.
const lineage = seals + `, below(oid, top) as (
    select i.inhrelid, s.oid from seals s join pg_inherits i on i.inhparent = s.oid
    union select i.inhrelid, b.top from below b join pg_inherits i on i.inhparent = b.oid)`

// tableKinds are the findings about tables and other objects of the checked schemas.
var tableKinds = []kind{
	{
		id:  "table-unsealed",
		why: "a statement fires only the triggers of the table that it names; this one has no seal",
		sql: lineage + `, ` + loginRoleList + `
select format('%I.%I', n.nspname, c.relname),
       'writes need no token; roles that may write: ' || coalesce((
           select string_agg(distinct quote_ident(r.rolname), ', ') from login_role r
            where has_table_privilege(r.becomes, c.oid, 'insert, update, delete, truncate')
               or has_any_column_privilege(r.becomes, c.oid, 'insert, update')), 'superusers only'),
       format('guard protect --resource RESOURCE %I.%I', n.nspname, c.relname)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = any ($1) and ` + sealable + `
   and not exists (select from seals s where s.oid = c.oid) and not exists (select from below b where b.oid = c.oid)
   and not exists (select from ringfence.sealed_tables() r where r.schema_name = n.nspname and r.table_name = c.relname)`,
	},
	{
		id: "partition-unsealed",
		why: "a write that names a partition or child directly does not fire the triggers of its " +
			"parent; one that was attached later has no seal",
		sql: lineage + `
select format('%I.%I', n.nspname, c.relname),
       format('it belongs to the sealed table %s and has no seal', string_agg(format('%I.%I', tn.nspname, t.relname), ', ')),
       format('guard protect --resource %s %I.%I', min(s.resource), n.nspname, c.relname)
  from below b join pg_class c on c.oid = b.oid join pg_namespace n on n.oid = c.relnamespace
  join pg_class t on t.oid = b.top join pg_namespace tn on tn.oid = t.relnamespace join seals s on s.oid = b.top
 where c.relkind <> 'f' and c.relpersistence <> 't' and not exists (select from seals x where x.oid = b.oid)
 group by n.nspname, c.relname`,
	},
	{
		id:  "parent-unsealed",
		why: "a write to the parent reaches the rows of its partitions and children without their seals",
		sql: seals + `
select format('%I.%I', n.nspname, c.relname),
       case when min(x.resource) is null then 'it is a parent of sealed tables and has no seal: '
            else format('it is sealed for %s, and a parent of tables that are sealed for another resource: ', min(x.resource)) end
         || string_agg(i.inhrelid::regclass::text, ', '),
       format('guard protect --resource %s %I.%I', coalesce(min(x.resource), min(s.resource)), n.nspname, c.relname)
  from seals s join pg_inherits i on i.inhrelid = s.oid
  join pg_class c on c.oid = i.inhparent join pg_namespace n on n.oid = c.relnamespace
  left join seals x on x.oid = i.inhparent
 where s.resource is distinct from x.resource
 group by n.nspname, c.relname`,
	},
	{
		id:  "seal-changed",
		why: "a seal that is disabled, or does not fire always and for every write, lets writes pass",
		sql: seals + `
select format('%I.%I', n.nspname, c.relname),
       'somebody has changed or disabled the trigger ringfence_seal',
       format('guard protect --resource %s %I.%I', coalesce(nullif(s.resource, ''), 'RESOURCE'), n.nspname, c.relname)
  from seals s join pg_class c on c.oid = s.oid join pg_namespace n on n.oid = c.relnamespace
 where not s.whole`,
	},
	{
		id: "seal-lost",
		why: "the table was created anew, renamed or restored, or somebody has dropped or changed its " +
			"seal",
		sql: seals + `
select format('%I.%I', r.schema_name, r.table_name),
       format('it was sealed for "%s" at %s by %s, and now ', r.resource, to_char(r.sealed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"'), r.sealed_by)
         || case when c.oid is null then 'there is no such table' when s.oid is null then 'has no seal' when s.resource = '' then 'its seal names no resource' else 'its seal is for ' || s.resource end,
       case when c.oid is null then format('guard unprotect %I.%I', r.schema_name, r.table_name)
            else format('guard protect --resource %s %I.%I', r.resource, r.schema_name, r.table_name) end
  from ringfence.sealed_tables() r
  left join pg_namespace n on n.nspname = r.schema_name
  left join pg_class c on c.relnamespace = n.oid and c.relname = r.table_name
  left join seals s on s.oid = c.oid
 where s.resource is distinct from r.resource`,
	},
	{
		id:  "foreign-table",
		why: "its rows are in another database, which knows nothing of the marks in this one",
		sql: lineage + `
select format('%I.%I', n.nspname, c.relname), 'a foreign table cannot be sealed',
       'seal the table in the database that has it'
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'f' and (n.nspname = any ($1) or exists (select from below b where b.oid = c.oid))`,
	},
	{
		id:  "sequence",
		why: "sequences have no triggers: nextval and setval take effect at once and are not rolled back",
		sql: loginRoles + `
select * from (
    select format('%I.%I', n.nspname, c.relname),
           'roles that may move it without a token: ' || (
               select string_agg(distinct quote_ident(r.rolname), ', ') from login_role r
                where has_sequence_privilege(r.becomes, c.oid, 'usage, update')),
           format('accept it if gaps do no harm; setval needs UPDATE: REVOKE UPDATE ON SEQUENCE %I.%I FROM ...', n.nspname, c.relname)
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any ($1) and c.relkind = 'S') s (object, what, advice)
 where what is not null`,
	},
	{
		id: "large-objects",
		why: "large objects have no triggers: their owners, and roles with UPDATE on them, write " +
			"without a token",
		sql: `
select 'pg_largeobject', format('large objects in the database: %s', count(*)), 'keep such data in a sealed table'
  from pg_largeobject_metadata having count(*) > 0`,
	},
}
