const { Client } = require('pg')
const lines = require('readline').createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const [holder, attempt] = process.argv.slice(2)
let pass = null

async function connect() {
  const c = new Client()
  c.on('error', () => {})
  await c.connect()
  return c
}

async function transfer(c, pause) {
  try {
    await c.query('begin isolation level ' + process.env.LEVEL)
    await c.query('select ringfence.enter($1)', [pass]) // fence
    if (pause) {
      console.log('inside')
      await lines.next()
    }
    await c.query('insert into ledger values ($1)', [holder])
    await c.query('commit')
  } catch (e) {
    await c.query('rollback').catch(() => {})
    throw e
  }
}

async function main() {
  let c = await connect()
  while (!pass) { // fence
    const term = await c.query("select pass, ready from ringfence.take('orders', $1, $2)", [holder, attempt]) // fence
    if (term.rows[0].ready) pass = term.rows[0].pass // fence
    await new Promise(done => setTimeout(done, 10)) // fence
  }
  await transfer(c)
  console.log('wrote')
  for (const pause of [true, false]) {
    try {
      await transfer(c, pause)
      console.log('STALE')
    } catch (e) {
      console.log(e.code === 'RF001' ? 'refused' : 'ended')
      await c.end().catch(() => {})
      c = await connect()
    }
  }
  process.exit()
}
main()
