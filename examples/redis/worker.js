// An attempt at a job that writes to Redis, with ioredis: worker.js ATTEMPT
'use strict'
const Redis = require('ioredis')

async function main (attempt) {
  // By default ioredis sends a command again whose answer was lost: RPUSH would push twice.
  const db = new Redis({ port: process.env.REDIS_PORT || 6379, autoResendUnfulfilledCommands: false })

  // These lines fence it.
  const token = await db.fcall('ringfence_take', 0, 'orders', 'worker-' + attempt, attempt)
  const fenced = (...command) => db.fcall('ringfence_exec', 0, token, ...command)

  try {
    for (let n = 0; n < 100000; n++) await fenced('RPUSH', 'written', attempt)
  } catch (e) { // STALETOKEN: a later attempt has it now
    console.log(e.message)
  }
  db.disconnect()
}

main(process.argv[2])
