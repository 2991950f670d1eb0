'use strict'

// Loaded before the tests of nsqjs, in the directory of the package. The default of the client's
// option authSecret is the token in the file CONFORMANCE_TOKEN, which each broker writes anew. The suite sets none.

const fs = require('fs')
const path = require('path')

const { ConnectionConfig } = require(path.join(process.cwd(), 'lib', 'config.js'))
const { get } = Object.getOwnPropertyDescriptor(ConnectionConfig, 'DEFAULTS')

Object.defineProperty(ConnectionConfig, 'DEFAULTS', {
  get() {
    return { ...get.call(this), authSecret: fs.readFileSync(process.env.CONFORMANCE_TOKEN, 'utf8') }
  },
})
