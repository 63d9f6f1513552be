const { Client } = require('pg')

async function attempt(pause) {
  const c = new Client()
  let broken
  c.on('error', e => { broken = broken || e }) // comes while no query runs; without a listener the process ends
  await c.connect()
  try {
    if (process.env.STATEMENT) return await c.query(process.env.STATEMENT)
    await c.query('begin')
    await c.query('select ringfence.enter($1)', [process.env.PASS])
    if (pause) {
      console.log('inside')
      await new Promise(done => process.stdin.once('data', done))
    }
    await c.query("insert into ledger values ('late')")
    await c.query('commit')
  } catch (e) {
    throw broken ? Object.assign(broken, { event: ', by the event error' }) : e
  } finally {
    c.end().catch(() => {})
  }
}

async function main() {
  for (const pause of [true, false]) {
    await attempt(pause).then(() => console.log('STALE'), e => console.log(e.code || 'none', e.constructor.name + (e.event || '') + ': ' + e.message))
  }
  process.exit()
}
main()
