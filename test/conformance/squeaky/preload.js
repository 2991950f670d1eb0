'use strict'

// Loaded before a file of tests. A test that cannot listen, because its port is taken, would
// wait without end: the process exits with PORT_TAKEN. A file that has not ended after
// STALLED_AFTER_MS prints what it waits for, and what the broker at STALLED_STATS knows of its
// clients, and exits with STALLED.

const http = require('http')

const PORT_TAKEN = 75
const STALLED = 124

process.on('uncaughtExceptionMonitor', (err) => {
  if (err.code === 'EADDRINUSE') {
    console.log('# stalled:', err.message)
    process.exit(PORT_TAKEN)
  }
})

const fail = () => process.exit(STALLED)

setTimeout(() => {
  for (const handle of process.report.getReport().libuv) {
    if (['tcp', 'timer', 'process'].includes(handle.type)) {
      console.log('# stalled:', JSON.stringify(handle))
    }
  }
  http.get(process.env.STALLED_STATS, (res) => {
    res.on('data', (chunk) => console.log('# stalled: the broker:', chunk.toString()))
    res.on('end', fail)
  }).on('error', (err) => {
    console.log('# stalled: the broker:', err.message)
    fail()
  })
}, Number(process.env.STALLED_AFTER_MS)).unref()
