'use strict'

// Loaded before a file of tests. Some listen at fixed ports from which the machine also gives
// addresses to clients, of the broker among others: they get others below these. A test that
// cannot listen, because its port is taken, would wait without end: the process exits with
// PORT_TAKEN. A file that has not ended after STALLED_AFTER_MS prints what it waits for, and
// what the broker at STALLED_STATS knows of its clients, and exits with STALLED.

const http = require('http')
const net = require('net')

const PORT_TAKEN = 75
const STALLED = 124

const FIXED = { first: 41600, last: 41699, shift: -20000 }

const shifted = (port) => (port >= FIXED.first && port <= FIXED.last ? Number(port) + FIXED.shift : port)

const { connect } = net.Socket.prototype
net.Socket.prototype.connect = function (...args) {
  const options = Array.isArray(args[0]) ? args[0][0] : args[0]
  if (typeof options === 'object') {
    options.port = shifted(options.port)
  } else {
    args[0] = shifted(options)
  }
  return connect.apply(this, args)
}

const { listen } = net.Server.prototype
net.Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, shifted(port), ...rest)
}

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
