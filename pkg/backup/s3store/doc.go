// Package s3store is a store of backups in a bucket of Amazon S3, or of a service that is
// compatible with it. Objects are prepared in a temporary file, sent with their MD5, which the
// service compares, and read into a temporary file. It is for brokerctl: neither a node nor
// pkg/client imports it.
//
// Invariants:
//
//  1. Memory holds one part of an object for each call. Parts have 16 MiB.
//  2. Each call ends: requests are repeated a bounded number of times, and a connection on which
//     nothing moves is closed.
//  3. Credentials come from the environment or from the shared credentials file, and are in no
//     error.
package s3store
