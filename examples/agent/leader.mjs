import http from 'node:http'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import pg from 'pg'

const ask = http.request({ socketPath: process.env.AGENT_SOCKET, path: '/v1/terms', method: 'POST', headers: { 'Content-Type': 'application/json' } })
ask.end('{"resource": "orders", "holder": "node"}')
let guarded, direct, term
for await (const line of createInterface({ input: (await once(ask, 'response'))[0] })) {
  const event = JSON.parse(line)
  console.log(event.event, event.cause ?? '')
  if (event.event === 'leading') {
    guarded = new pg.Client({ connectionString: process.env.GUARDED, options: event.carry.PGOPTIONS })
    direct = new pg.Client(process.env.DIRECT)
    await Promise.all([guarded.connect(), direct.connect()])
    term = event.carry.pass
  }
  if (event.event === 'leading' || event.event === 'alive') {
    await guarded.query("insert into ledger (note) values ('node')")
    await direct.query(`begin; select ringfence.enter('${term}'); insert into ledger (note) values ('node'); commit`)
  }
}
process.exit() // its connections would keep it
