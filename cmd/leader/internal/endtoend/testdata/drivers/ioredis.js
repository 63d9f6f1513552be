// What a leader does with ioredis. drivers_test.go says how it talks to the test.
'use strict'
const fs = require('fs')
const Redis = require('ioredis')

const key = 'ledger:' + process.env.RESOURCE
const lead = () => {
  const c = new Redis({
    host: 'localhost', port: process.env.PORT, username: 'app', password: 'secret',
    tls: { ca: fs.readFileSync(process.env.CA, 'utf8') },
    connectionName: `fence.${process.env.RESOURCE}.5`,
    retryStrategy: null, maxRetriesPerRequest: 0,
  })
  c.on('error', () => {}) // each command fails with it, too
  return c
}
const next = () => new Promise((resolve) => process.stdin.once('data', resolve))

async function main () {
  const leader = lead()
  await leader.multi().rpush(key, 'é').rpush(key, 'two').exec()
  await leader.eval("return redis.call('rpush', KEYS[1], 'three')", 1, key)
  console.log('wrote', await leader.llen(key))

  await next() // a newer leader is there now
  let e = await leader.rpush(key, 'late').catch((e) => e)
  // It ignores an error that comes between two commands, and then finds the connection closed.
  console.log('deposed', /^STALETOKEN|^Connection is closed/.test(e.message) ? 'ended' : e.message)
  e = await lead().rpush(key, 'late').catch((e) => e)
  console.log('refused', e.message.split(' ')[0])
}

main().then(() => process.exit(0), (e) => { console.error(e); process.exit(1) })
