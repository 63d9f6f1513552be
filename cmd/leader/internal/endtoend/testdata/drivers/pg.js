// What a leader does with node-postgres. drivers_test.go says how it talks to the test.
'use strict'
const fs = require('fs')
const { Pool } = require('pg')

const leader = {
  host: 'localhost', port: process.env.PORT, user: 'app', password: 'secret', database: 'postgres',
  ssl: { ca: fs.readFileSync(process.env.CA, 'utf8') }, options: `-c fence.${process.env.RESOURCE}=5`,
}
const next = () => new Promise((resolve) => process.stdin.once('data', resolve))

async function main () {
  const pool = new Pool({ ...leader, max: 1 })
  pool.on('error', () => {}) // an idle connection has ended
  const c = await pool.connect()
  await c.query('begin')
  for (const note of ['é', 'two', 'three']) {
    await c.query({ name: 'write', text: 'insert into ledger (token, note) values ($1, $2)', values: [5, note] })
  }
  await c.query('commit')
  console.log('wrote', (await c.query('select note from ledger where token = $1', [5])).rowCount)
  const { rows } = await c.query('select ssl from pg_stat_ssl where pid = pg_backend_pid()')
  console.log('encrypted', rows[0].ssl)
  let ended = new Promise((resolve) => c.on('error', resolve))

  await next() // a newer leader is there now
  let e = await c.query('insert into ledger (token) values (5)').catch((e) => e)
  if (!e.code || !e.code.startsWith('RF')) e = await ended // it had read the reason before
  console.log('deposed', e.code, e.schema, e.table, e.column, e.constraint)
  c.release(true)
  e = await pool.query('select 1').catch((e) => e)
  console.log('refused', e.code)
  await pool.end()
}

main().then(() => process.exit(0), (e) => { console.error(e); process.exit(1) })
